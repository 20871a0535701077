import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.shm import SHM, Regions


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Path]:
    before = set(SHM.iterdir())
    yield tmp_path / "locks"
    assert not {path for path in set(SHM.iterdir()) - before if path.name.startswith("clef_")}


def test_leaving_removes_the_regions_and_the_lock(locks: Path) -> None:
    with Regions.claim(locks) as regions:
        (SHM / f"{regions.prefix}one").touch()
        other = SHM / f"other-{regions.prefix}one"
        other.touch()
    assert other.exists()
    other.unlink()
    assert not list(locks.iterdir())


def test_two_launches_do_not_touch_each_other(locks: Path) -> None:
    with Regions.claim(locks) as first:
        region = SHM / f"{first.prefix}one"
        region.touch()
        with Regions.claim(locks) as second:
            assert second.prefix != first.prefix
            assert region.exists()
        assert region.exists()


def test_the_next_launch_removes_what_a_dead_one_left(locks: Path) -> None:
    leave = (
        "import os, sys; from pathlib import Path; from launch.shm import SHM, Regions\n"
        "regions = Regions.claim(Path(sys.argv[1])); (SHM / f'{regions.prefix}one').touch()\n"
        "print(regions.prefix, flush=True); os._exit(9)"
    )
    dead = subprocess.run([sys.executable, "-c", leave, str(locks)], stdout=subprocess.PIPE, text=True, check=False)
    region = SHM / f"{dead.stdout.strip()}one"
    assert region.exists()
    with Regions.claim(locks) as regions:
        assert not region.exists()
        assert [path.stem for path in locks.iterdir()] == [regions.prefix]


def test_regions_are_kept_while_a_child_of_a_dead_launch_lives(locks: Path) -> None:
    regions = Regions.claim(locks)
    region = SHM / f"{regions.prefix}one"
    region.touch()
    child = subprocess.Popen(["sleep", "60"], pass_fds=[regions.descriptor])
    os.close(regions.descriptor)  # the launcher dies, its child does not
    try:
        with Regions.claim(locks):
            assert region.exists()
    finally:
        child.kill()
        child.wait()
    with Regions.claim(locks):
        assert not region.exists()
