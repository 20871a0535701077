"""The card, its kernels, shared memory and memory."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from adapter.shared_memory import RESERVED_BYTES, fitted, free_bytes
from clef.inspection import Inspected
from clef.kernels import missing_kernels, refusal
from clef.settings import ModelSettings
from launch.card import ALLOWANCE, CUDA_BYTES, GB, working_bytes
from launch.doctor.finding import Finding, fail, ok, warn
from launch.published import TextShape
from preprocess.settings import MIB, Settings

SMI = "nvidia-smi"
SMI_S = 30
QUERY = "name,driver_version,memory.total,memory.used"
OLDEST_BFLOAT16 = (8, 0)
UNBOUNDED = 1 << 50
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Card:
    """As nvidia-smi tells it; memory in bytes."""

    name: str
    driver: str
    total: int
    used: int


def card(device: str) -> tuple[Finding, Card | None]:
    """The card that the model would run on; None: the CPU. `device` is CLEF_DEVICE."""
    wants_cuda = device.startswith("cuda")
    smi = shutil.which(SMI)
    if smi is None:
        if wants_cuda:
            advice = "Install NVIDIA's driver, or in a container pass the card in (docker run --gpus all)."
            return fail("GPU", f"CLEF_DEVICE is {device}, but there is no {SMI} and so no driver", advice), None
        return ok("GPU", f"none (no {SMI}): the model runs on the CPU, which is for the development release"), None
    done = subprocess.run(
        [smi, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        timeout=SMI_S,
        check=False,
    )
    cards = [_card(line) for line in done.stdout.splitlines() if line.count(",") == QUERY.count(",")]
    if done.returncode or not cards:
        said = " ".join((done.stdout + done.stderr).split())[:300]
        return fail(
            "GPU", f"{SMI} fails: {said}", "Reboot after an update of the driver; `dmesg` names other faults."
        ), None
    if device == "cpu":
        return ok("GPU", f"{cards[0].name} is not used: CLEF_DEVICE is cpu"), None
    place = device.partition(":")[2] or "0"
    index = int(place) if place.isdecimal() else len(cards)
    if index >= len(cards):
        return fail(
            "GPU", f"CLEF_DEVICE is {device}, and there are {len(cards)} cards", "Cards count from cuda:0."
        ), None
    found = cards[index]
    text = f"{found.name}, {found.total / GB:.0f} GB, driver {found.driver}"
    if trouble := _torch_trouble(index):
        return fail("GPU", f"{text}: {trouble[0]}", trouble[1]), found
    return ok("GPU", text + (f" (the first of {len(cards)})" if len(cards) > 1 and not index else "")), found


def kernels(has_card: bool, allow_slow: bool) -> Finding:
    """flash-linear-attention and causal-conv1d, as the model step looks for them."""
    if not has_card:
        return ok("CUDA kernels", "not needed on a CPU")
    missing = missing_kernels()
    if reason := refusal("cuda", missing, allow_slow):
        cannot, _, advice = reason.partition(". ")
        return fail("CUDA kernels", cannot, f"{advice}.")
    if missing:
        return warn(
            "CUDA kernels", f"{' and '.join(missing)} missing, as CLEF_ALLOW_SLOW_KERNELS permits", "Requests are slow."
        )
    return ok("CUDA kernels", "flash-linear-attention and causal-conv1d can be imported")


def shared_memory(requests: Settings) -> Finding:
    """/dev/shm, which carries requests and images between the steps."""
    free = free_bytes()
    text = f"{free / MIB:.0f} MiB free in /dev/shm"
    advice = "Containers: --shm-size 2g, or a Memory volume at /dev/shm. Else: mount -o remount,size=2g /dev/shm."
    least = RESERVED_BYTES + requests.max_body_bytes + requests.max_images_bytes
    if free < least:
        return fail("shared memory", f"{text}; one large request needs {least / MIB:.0f}", advice)
    held = _patches(requests, free)
    if held < _patches(requests, UNBOUNDED):
        pixels = held // 3 / 1e6
        return warn("shared memory", f"{text}: the images of a request are held to {pixels:.1f} megapixels", advice)
    return ok("shared memory", text)


def memory(weights: Inspected | None, text: TextShape | None, model: ModelSettings, found: Card | None) -> Finding:
    """Whether the weights, and what is kept and computed beside them, fit; by arithmetic."""
    if weights is None or text is None:
        return ok("memory", f"{available_bytes() / GB:.1f} GB available; the development release needs 2")
    wide = model.dtype == "float32" or (model.dtype == "auto" and found is None)
    weight_bytes = weights.bytes(4 if wide else 2)
    room = found.total if found else available_bytes()
    tokens = max(model.batch_tokens, model.max_length)
    kept, working = model.state_cache_bytes, ALLOWANCE * tokens * working_bytes(text) * (2 if wide else 1)
    needed = weight_bytes + kept + working + (CUDA_BYTES if found else 0)
    said = (
        f"weights {weight_bytes / GB:.1f} GB, computed at once {working / GB:.1f}, states {kept / GB:.1f}; "
        f"{found.name if found else 'this machine'} has {room / GB:.1f} GB"
    )
    if weight_bytes > room:
        return fail("memory", said, "Take a larger one, or CLEF_DTYPE=bfloat16." if wide else "Take a larger card.")
    if needed > room:
        return warn("memory", said, "Lower CLEF_MAX_LENGTH, CLEF_STATE_CACHE_BYTES or CLEF_BATCH_TOKENS.")
    if found and found.used > room - needed:
        return warn("memory", f"{said}, {found.used / GB:.1f} in use", f"{SMI} names the programs on the card.")
    if found and available_bytes() < weight_bytes:
        passing = (
            f"{said}; of the host's, through which the weights pass, {available_bytes() / GB:.1f} GB are available"
        )
        return warn("memory", passing, "Give the machine or the container more memory, or loading may be killed.")
    return ok("memory", said)


def available_bytes() -> int:
    """Of this machine's memory, or of this container's where that is less."""
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:  # no limit, or cgroups of the first version
        return free
    return free if limit == "max" else min(free, int(limit) - int(used))


def _patches(requests: Settings, free: int) -> int:
    """Bytes that the image patches of a request may have."""
    return fitted(requests, free).max_patches_bytes or 0


def _card(line: str) -> Card:
    name, driver, total, used = (part.strip() for part in line.split(","))
    return Card(name, driver, int(total) * MIB, int(used) * MIB)


def _torch_trouble(index: int) -> tuple[str, str] | None:
    """Why PyTorch cannot use the card, and what to do."""
    import torch

    if torch.version.cuda is None:
        return (
            f"PyTorch {torch.__version__} is a build for CPUs",
            "Install it from PyPI: unset PIP_EXTRA_INDEX_URL, `make clean serve`.",
        )
    if not torch.cuda.is_available():
        return (
            f"PyTorch, built for CUDA {torch.version.cuda}, cannot use it",
            "The driver is too old for that CUDA (13 needs 580 or newer), or the container was given no card.",
        )
    if torch.cuda.get_device_capability(index) < OLDEST_BFLOAT16:
        return "it has no bfloat16", "Take a card of the Ampere generation or newer."
    return None
