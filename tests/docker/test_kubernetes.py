"""The manifests as kubectl builds them, against the published schemas of Kubernetes and the types of KServe's SDK."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from launch.card import GB, fit
from launch.published import PUBLISHED
from launch.triton import REPOSITORY_ROOT

FOLDER = REPOSITORY_ROOT / "docker/kubernetes"
KUBERNETES = "1.37"
KUSTOMIZATIONS = ["storage", "deployment", "clef-27b", "kserve"]
SIMPLE = {"str": str, "int": int, "bool": bool}


@cache
def built(name: str) -> tuple[dict[str, Any], ...]:
    kubectl = Path(sys.executable).with_name("kubectl")
    done = subprocess.run([kubectl, "kustomize", FOLDER / name], check=True, capture_output=True, text=True)
    assert not done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = (resource for resource in built(name) if resource["kind"] == kind)
    return found


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "deployment", one("deployment", "Deployment")["spec"]["template"]["spec"]
    yield "clef-27b", one("clef-27b", "Deployment")["spec"]["template"]["spec"]
    yield "download", one("storage", "Job")["spec"]["template"]["spec"]
    yield "kserve", one("kserve", "InferenceService")["spec"]["predictor"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_kubernetes_knows_every_field(name: str) -> None:
    core = [resource for resource in built(name) if resource["kind"] != "InferenceService"]
    assert core
    for resource in core:
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)


def test_kserve_knows_every_field() -> None:
    service = one("kserve", "InferenceService")
    _check_kserve(service["spec"], "V1beta1InferenceServiceSpec", "spec")
    with pytest.raises(AssertionError, match="maxReplica "):
        _check_kserve({"predictor": {"maxReplica": 1}}, "V1beta1InferenceServiceSpec", "spec")
    with pytest.raises(AssertionError, match="readinessProb"):
        _check_kserve(
            {"predictor": {"containers": [{"name": "a", "readinessProb": {}}]}}, "V1beta1InferenceServiceSpec", "spec"
        )


def _check_kserve(value: Any, kind: str, where: str) -> None:
    """By the SDK's generated models, where KServe has the type, and by Kubernetes' schema where that has it."""
    if kind.startswith("list["):
        assert isinstance(value, list), where
        for index, item in enumerate(value):
            _check_kserve(item, kind[5:-1], f"{where}[{index}]")
    elif kind in SIMPLE:
        assert type(value) is SIMPLE[kind], f"{where} is no {kind}"
    elif kind == "V1beta1MetricQuantity":
        assert isinstance(value, str | int), where
    elif kind.startswith("V1beta1"):
        types, names = _kserve_model(kind)
        fields = {json_name: types[python_name] for python_name, json_name in names.items()}
        for key, item in value.items():
            assert key in fields, f"{where} has no {key} in KServe"
            _check_kserve(item, fields[key], f"{where}.{key}")
    else:
        errors = [error.message for error in _kubernetes_type(kind).iter_errors(value)]
        assert not errors, f"{where}: {errors}"


@cache
def _kserve_model(name: str) -> tuple[dict[str, str], dict[str, str]]:
    # Read, not imported: the SDK needs half a hundred packages.
    file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    source = distribution("kserve").locate_file(f"kserve/models/{file}.py")
    tree = ast.parse(Path(str(source)).read_text())
    (model,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in model.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Dict)
    }
    return found["openapi_types"], found["attribute_map"]


@cache
def _kubernetes_type(name: str) -> Draft202012Validator:
    folder = files(kubernetes_validate) / "kubernetes-json-schema" / f"v{KUBERNETES}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text())
    return Draft202012Validator(definitions | {"$ref": f"#/$defs/io.k8s.api.core.v1.{name.removeprefix('V1')}"})


def test_every_container_is_confined() -> None:
    for name, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] and pod["enableServiceLinks"] is False, name
        assert pod["automountServiceAccountToken"] is False, name
        for container in containers(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and context["capabilities"] == {"drop": ["ALL"]}, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert "memory" in container["resources"]["limits"], name


def test_volumes_and_claims_meet() -> None:
    claims = {one(name, "PersistentVolumeClaim")["metadata"]["name"] for name in ("storage", "clef-27b")}
    for name, pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounted = {mount["name"] for container in containers(pod) for mount in container.get("volumeMounts", [])}
        assert mounted == volumes.keys(), name
        used = {
            each["persistentVolumeClaim"]["claimName"] for each in volumes.values() if "persistentVolumeClaim" in each
        }
        assert used <= claims, name


def test_triton_is_reached_by_its_frontend_alone_and_outlives_it() -> None:
    pod = one("deployment", "Deployment")["spec"]["template"]["spec"]
    (triton,) = (each for each in pod["initContainers"] if each.get("restartPolicy") == "Always")
    assert {"--http-address=127.0.0.1", "--grpc-address=127.0.0.1"} <= set(triton["args"])
    assert triton["resources"]["limits"]["nvidia.com/gpu"] == 1
    (frontend,) = pod["containers"]
    assert {"name": "TRITON_URL", "value": "127.0.0.1:8001"} in frontend["env"]
    assert frontend["readinessProbe"]["httpGet"]["path"] == "/health"
    waits = frontend["lifecycle"]["preStop"]["sleep"]["seconds"] + 61 + 60
    assert pod["terminationGracePeriodSeconds"] > waits


@pytest.mark.parametrize("name", ["deployment", "clef-27b"])
def test_selectors_find_the_pods(name: str) -> None:
    labels = one(name, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        selector = one(name, kind)["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
    (spread,) = one(name, "Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    scaled = one(name, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"]
    assert scaled == one(name, "Deployment")["metadata"]["name"]


def test_clef_27b_may_run_beside_clef_flash() -> None:
    both = [{(each["kind"], each["metadata"]["name"]) for each in built(name)} for name in ("deployment", "clef-27b")]
    assert not both[0] & both[1]
    for ours, others in (("deployment", "clef-27b"), ("clef-27b", "deployment")):
        labels = one(others, "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert not one(ours, "Service")["spec"]["selector"].items() <= labels.items()
    settings = one("clef-27b", "ConfigMap")["data"]
    command = one("clef-27b", "Job")["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[3:] == ["download", settings["CLEF_MODEL_NAME"], "--dir", settings["CLEF_RELEASE"]]


GIB = 1 << 30
PROCESSES_BYTES = 3 * GIB
"""Triton, its three steps with torch in one of them, by what `tests/stack/test_processes.py` holds them to."""


@pytest.mark.parametrize(
    ("name", "release"), [("deployment", "clef-flash"), ("clef-27b", "clef"), ("kserve", "clef-flash")]
)
def test_a_pod_has_the_memory_that_it_is_reckoned_to_need(name: str, release: str) -> None:
    """Weights pass through the host's memory, and shared memory counts as the pod's."""
    pod = dict(pods())[name]
    (triton,) = (each for each in containers(pod) if "nvidia.com/gpu" in each["resources"]["limits"])
    (shared,) = (each["emptyDir"]["sizeLimit"] for each in pod["volumes"] if each["name"] == "shm")
    asked, most = (int(triton["resources"][kind]["memory"].removesuffix("Gi")) for kind in ("requests", "limits"))
    needed = PUBLISHED[release].weights_bytes + int(shared.removesuffix("Gi")) * GIB + PROCESSES_BYTES
    assert needed < asked * GIB < most * GIB


def test_clef_27b_fits_on_the_card_that_it_asks_for() -> None:
    found = fit(PUBLISHED["clef"], 80 * GB, 16_384)
    cache = int(one("clef-27b", "ConfigMap")["data"]["CLEF_STATE_CACHE_BYTES"])
    assert cache < found.left
    assert cache // PUBLISHED["clef"].footprint.prefix(4_000) == 14


def test_the_autoscaler_reads_the_metric_that_the_adapter_makes() -> None:
    (metric,) = one("deployment", "HorizontalPodAutoscaler")["spec"]["metrics"]
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]


def test_readiness_is_the_file_that_serve_keeps() -> None:
    for pod in (
        one("deployment", "Deployment")["spec"]["template"]["spec"],
        one("kserve", "InferenceService")["spec"]["predictor"],
    ):
        (triton,) = (each for each in containers(pod) if "/opt/clef/docker/triton/serve.py" in each.get("args", []))
        assert triton["readinessProbe"]["exec"]["command"] == ["test", "-e", "/tmp/triton-ready"]
        assert triton["startupProbe"]["exec"] == triton["readinessProbe"]["exec"]
