"""Validation of pod settings."""

import json
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.accelerators import ACCELERATORS, on_vertex
from qcnn.jobs.pod_settings import PodSettings, RoleResources, pod_settings, secrets_in
from qcnn.jobs.references import IMAGE_FORM
from qcnn.jobs.tfjob.engine import REPLICA_TYPES
from qcnn.process.roles import ROLES


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_on_vertex_returns_accelerator_type_of_api(accelerator: str) -> None:
    from qcnn.jobs.vertex.client import aiplatform

    assert on_vertex(accelerator) in aiplatform.AcceleratorType.__members__


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("aws_secret_access_key", "abc"),
        ("MINIO_SECRET", "abc"),
        ("HF_TOKEN", "abc"),
        ("DB_PASSWORD", "abc"),
        ("API_KEY", "abc"),
        ("PROXY", "http://me:word@proxy:80"),
        ("CONTENT", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
        ("ID", "AKIAABCDEFGHIJKLMNOP"),
    ],
)
def test_secrets_in_detects_name_or_value(name: str, value: str) -> None:
    assert secrets_in({"A": "b", name: value}) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ACCESS_KEY_ID", "minio"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/var/secrets/key.json"),
        ("TOKEN_FILE", "token"),
        ("SECRET", ""),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("AWS_ENDPOINT_URL", "http://minio-service.kubeflow:9000"),
        ("KEYBOARD", "de"),
        ("STORAGE_EMULATOR_HOST", "http://10.244.0.1:4443"),
        ("COMPASS", "north"),
    ],
)
def test_secrets_in_ignores_public_values(name: str, value: str) -> None:
    assert secrets_in({name: value}) == []


KINDS = ", ".join(ACCELERATORS)
QUEUE = "the name of a Kueue LocalQueue, of lowercase letters, digits, - and ."
OF_ROLES = "a mapping of chief, worker, ps, evaluator to any of cpu, memory, gpus"
CLAIM = {"persistentVolumeClaim": {"claimName": "outputs"}}


def test_pod_settings_converts_yaml_values() -> None:
    given: dict[str, Any] = {
        "image": "qcnn",
        "cpu": 2,
        "memory": "1.5Gi",
        "pull_secrets": ["registry"],
        "environment": {"A": "1"},
        "secrets": {"AWS_ACCESS_KEY_ID": "keys/id"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "queue": "team-a.gpus",
        "priority_class": "system-node-critical",
        "topology_spread": "topology.kubernetes.io/zone",
        "roles": {"chief": {"cpu": 4}, "ps": {"memory": "8Gi", "gpus": 0}},
    }
    assert pod_settings(given) == PodSettings(
        image="qcnn",
        cpu="2",
        memory="1.5Gi",
        pull_secrets=("registry",),
        environment={"A": "1"},
        secrets={"AWS_ACCESS_KEY_ID": "keys/id"},
        tolerations=({"key": "spot", "operator": "Exists"},),
        queue="team-a.gpus",
        priority_class="system-node-critical",
        topology_spread="topology.kubernetes.io/zone",
        roles={"chief": RoleResources(cpu="4"), "ps": RoleResources(memory="8Gi", gpus=0)},
    )


def test_pod_settings_survive_json_round_trip() -> None:
    pod = pod_settings({"image": "qcnn", "queue": "a", "roles": {"worker": {"gpus": 1}}, "accelerator": "nvidia-l4"})
    assert pod_settings(json.loads(json.dumps(pod.model_dump()))) == pod


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": None}, f"pod.image: must be {IMAGE_FORM}. Given: None"),
        ({"cpu": "two"}, "pod.cpu: must be a quantity such as 2 or 500m. Given: 'two'"),
        ({"memory": True}, "pod.memory: must be a quantity such as 2Gi. Given: True"),
        ({"gpus": -1}, "pod.gpus: must be an integer, at least 0. Given: -1"),
        ({"gpus": True}, "pod.gpus: must be an integer, at least 0. Given: True"),
        ({"accelerator": "NVIDIA_L4", "gpus": 1}, f"pod.accelerator: must be one of {KINDS}. Given: 'NVIDIA_L4'"),
        ({"accelerator": "nvidia-l4", "gpus": 0}, "pod.gpus: must be at least 1 with accelerator nvidia-l4. Given: 0"),
        (
            {"image": f"qcnn:{125 * 'a'}", "roles": {"worker": {"gpus": 1}}},
            f"pod.image: must have a tag of at most 124 characters with GPUs, which add -gpu. Given: qcnn:{125 * 'a'}",
        ),
        ({"spot": "yes"}, "pod.spot: must be true or false. Given: 'yes'"),
        ({"metrics_port": 80}, "pod.metrics_port: must be an integer, 1024 to 65535, or left out. Given: 80"),
        ({"metrics_port": "9095"}, "pod.metrics_port: must be an integer, 1024 to 65535, or left out. Given: '9095'"),
        ({"log_format": "xml"}, "pod.log_format: must be one of text, json. Given: 'xml'"),
        ({"vertex": []}, "pod.vertex: must be a mapping of Vertex AI settings. Given: []"),
        (
            {"pull_policy": "Sometimes"},
            "pod.pull_policy: must be one of Always, IfNotPresent, Never. Given: 'Sometimes'",
        ),
        ({"pull_secrets": "a"}, "pod.pull_secrets: must be a list of the names of secrets. Given: 'a'"),
        (
            {"environment": {"A": 1}},
            "pod.environment.A: must be a mapping of names to text (numbers in quotation marks). Given: 1",
        ),
        (
            {"secrets": {"A": "b"}},
            "pod.secrets.A: must be a mapping of variables to SECRET/KEY. Given: 'b'",
        ),
        ({"queue": "Team A"}, f"pod.queue: must be {QUEUE}. Given: 'Team A'"),
        ({"queue": "a" * 64}, f"pod.queue: must be {QUEUE}. Given: '{'a' * 64}'"),
        ({"queue": "a\n"}, f"pod.queue: must be {QUEUE}. Given: 'a\\n'"),
        (
            {"runtime": "Team"},
            "pod.runtime: must be the name of a ClusterTrainingRuntime, or TrainingRuntime/NAME. Given: 'Team'",
        ),
        ({"priority_class": "High"}, "pod.priority_class: must be the name of a priority class. Given: 'High'"),
        ({"priority_class": 3}, "pod.priority_class: must be the name of a priority class. Given: 3"),
        (
            {"topology_spread": "zones of the cloud"},
            "pod.topology_spread: must be the key of a node label such as topology.kubernetes.io/zone. "
            "Given: 'zones of the cloud'",
        ),
        ({"roles": []}, f"pod.roles: must be {OF_ROLES}. Given: []"),
        ({"roles": {"boss": {"cpu": 1}}}, f"pod.roles.boss: must be {OF_ROLES}. Given: 'boss'"),
        ({"roles": {"chief": 3}}, f"pod.roles.chief: must be {OF_ROLES}. Given: 3"),
        (
            {"roles": {"chief": {"disk": 1}}},
            "pod.roles.chief.disk: unknown field; valid fields: cpu, memory, gpus. Given: 1",
        ),
        ({"roles": {"ps": {"cpu": "two"}}}, "pod.roles.ps.cpu: must be a quantity such as 2 or 500m. Given: 'two'"),
        ({"roles": {"ps": {"gpus": -1}}}, "pod.roles.ps.gpus: must be an integer, at least 0. Given: -1"),
        (
            {"accelerator": "nvidia-l4", "gpus": 0, "roles": {"worker": {"gpus": 0}}},
            "pod.gpus: must be at least 1 with accelerator nvidia-l4. Given: 0",
        ),
        ({"node_selector": ["a"]}, "pod.node_selector: must be a mapping of labels to text. Given: ['a']"),
        ({"tolerations": {}}, "pod.tolerations: must be a list of tolerations, as in a pod's spec. Given: {}"),
    ],
)
def test_pod_settings_invalid_value_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        pod_settings({"image": "qcnn", **given})
    assert str(error.value) == message


def test_pod_settings_unknown_or_missing_field_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"^pod\.cpus: unknown field; valid fields: image, .*, log_format, vertex\. Given: 3$"
    ):
        pod_settings({"image": "qcnn", "cpus": 3})
    with pytest.raises(ConfigError, match=r"^pod\.1: unknown field; valid fields: image, .*\. Given: "):
        pod_settings({"image": "qcnn", 1: 2})  # type: ignore[dict-item]
    with pytest.raises(
        ConfigError, match=r"^pod\.roles\.worker\.1: unknown field; valid fields: cpu, memory, gpus\. Given: "
    ):
        pod_settings({"image": "qcnn", "roles": {"worker": {1: 2}}})
    with pytest.raises(ConfigError, match=r"^pod\.image: must be given\. Given: none$"):
        pod_settings({})


def test_tfjobs_have_every_role() -> None:
    assert tuple(REPLICA_TYPES) == ROLES


@pytest.mark.parametrize(
    ("role", "resources"),
    [
        ("chief", ("2", "8Gi", 1, "nvidia-l4")),
        ("worker", ("2", "2Gi", 2, "nvidia-l4")),
        # A role without GPUs requests no accelerator.
        ("ps", ("500m", "2Gi", 0, "")),
        ("evaluator", ("2", "2Gi", 1, "nvidia-l4")),
    ],
)
def test_for_role_overrides_common_resources(role: str, resources: tuple[str, str, int, str]) -> None:
    of_roles = {"chief": {"memory": "8Gi"}, "worker": {"gpus": 2}, "ps": {"cpu": "500m", "gpus": 0}}
    common = {"image": "qcnn", "cpu": 2, "gpus": 1, "accelerator": "nvidia-l4"}
    pod = pod_settings({**common, "roles": of_roles}).for_role(role)
    assert (pod.cpu, pod.memory, pod.gpus, pod.accelerator) == resources


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        ({"accelerator": "nvidia-l4"}, {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}),
        ({"accelerator": "nvidia-l4", "gpus": 2}, {"chief": 2, "worker": 2, "ps": 2, "evaluator": 2}),
        (
            {"accelerator": "nvidia-l4", "roles": {"ps": {"gpus": 0}}},
            {"chief": 1, "worker": 1, "ps": 0, "evaluator": 1},
        ),
        # Only the named role requests GPUs.
        (
            {"accelerator": "nvidia-l4", "roles": {"worker": {"gpus": 2}}},
            {"chief": 0, "worker": 2, "ps": 0, "evaluator": 0},
        ),
        ({}, {"chief": 0, "worker": 0, "ps": 0, "evaluator": 0}),
    ],
)
def test_gpus_default_to_1_with_accelerator(given: dict[str, Any], gpus: dict[str, int]) -> None:
    pod = pod_settings({"image": "qcnn", **given})
    assert {role: pod.for_role(role).gpus for role in ROLES} == gpus
    # The settings in a compiled pipeline are complete.
    assert pod_settings(json.loads(json.dumps(pod.model_dump()))) == pod


def test_processes_with_gpus_use_gpu_image() -> None:
    pod = pod_settings({"image": "team/qcnn:1", "accelerator": "nvidia-l4", "roles": {"ps": {"gpus": 0}}})
    images = {role: pod.for_role(role).process_image for role in ROLES}
    assert images == {**dict.fromkeys(ROLES, "team/qcnn:1-gpu"), "ps": "team/qcnn:1"}
    for role, image in images.items():
        assert pod.for_role(role).process_variables["QCNN_IMAGE"] == image
    # Steps of a pipeline have no GPUs.
    assert (pod.image, pod.variables["QCNN_IMAGE"]) == ("team/qcnn:1", "team/qcnn:1")


@pytest.mark.parametrize(
    ("volumes", "path", "persistent"),
    [
        ({}, "/output", False),
        ({"/output": CLAIM}, "/output", True),
        ({"/output/": CLAIM}, "/output/a/b", True),
        ({"/output": CLAIM}, "/outputs", False),
        ({"/output": CLAIM}, "/output/../tmp", False),
        ({"/output": CLAIM}, "/tmp", False),
        ({"/output": {"emptyDir": {}}}, "/output", False),
        ({"/output": {"ephemeral": {"volumeClaimTemplate": {}}}}, "/output", False),
        ({"/output": CLAIM}, "//output/a", True),
        ({"/output": {"emptyDir": {}}, "/output/kept": CLAIM}, "/output/kept/a", True),
        ({"/output": CLAIM, "/output/scratch": {"emptyDir": {}}}, "/output/scratch/a", False),
        ({"/output": {"hostPath": {"path": "/disk"}}}, "/output/a", True),
    ],
)
def test_is_persistent_for_path_in_persistent_volume(volumes: dict[str, Any], path: str, persistent: bool) -> None:
    assert PodSettings(image="qcnn", volumes=volumes).is_persistent(path) is persistent


def test_variables_include_image_and_json_log_format() -> None:
    pod = pod_settings({"image": "qcnn", "environment": {"A": "1"}})
    assert pod.variables == {"A": "1", "QCNN_IMAGE": "qcnn"}
    assert pod_settings({**pod.model_dump(), "log_format": "json"}).variables == {
        "A": "1",
        "QCNN_LOG_FORMAT": "json",
        "QCNN_IMAGE": "qcnn",
    }
