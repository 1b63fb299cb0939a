"""What a person may give pods, and how it is refused."""

from typing import Any

import pytest

from launchers.accelerators import ACCELERATORS
from launchers.pod import Pod, pod_settings
from trainer.errors import ConfigError

KINDS = ", ".join(ACCELERATORS)


def test_what_yaml_says_becomes_what_pods_are_given() -> None:
    given: dict[str, Any] = {
        "image": "qcnn",
        "cpu": 2,
        "memory": "1.5Gi",
        "pull_secrets": ["registry"],
        "environment": {"A": "1"},
        "secrets": {"AWS_ACCESS_KEY_ID": "keys/id"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    assert pod_settings(given) == Pod(
        image="qcnn",
        cpu="2",
        memory="1.5Gi",
        pull_secrets=("registry",),
        environment={"A": "1"},
        secrets={"AWS_ACCESS_KEY_ID": "keys/id"},
        tolerations=({"key": "spot", "operator": "Exists"},),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image": None}, "pod.image: must be text. Given: None"),
        ({"cpu": "two"}, "pod.cpu: must be a quantity such as 2 or 500m. Given: 'two'"),
        ({"memory": True}, "pod.memory: must be a quantity such as 2Gi. Given: True"),
        ({"gpus": -1}, "pod.gpus: must be an integer, at least 0. Given: -1"),
        ({"gpus": True}, "pod.gpus: must be an integer, at least 0. Given: True"),
        ({"accelerator": "NVIDIA_L4", "gpus": 1}, f"pod.accelerator: must be one of {KINDS}. Given: 'NVIDIA_L4'"),
        ({"accelerator": "nvidia-l4"}, "pod.gpus: must be at least 1 with accelerator nvidia-l4. Given: 0"),
        ({"spot": "yes"}, "pod.spot: must be true or false. Given: 'yes'"),
        ({"metrics_port": 80}, "pod.metrics_port: must be an integer, 1024 to 65535, or left out. Given: 80"),
        ({"metrics_port": "9095"}, "pod.metrics_port: must be an integer, 1024 to 65535, or left out. Given: '9095'"),
        ({"log_format": "xml"}, "pod.log_format: must be one of text, json. Given: 'xml'"),
        ({"vertex": []}, "pod.vertex: must be a mapping of settings of Vertex AI's own. Given: []"),
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
        ({"node_selector": ["a"]}, "pod.node_selector: must be a mapping of labels to text. Given: ['a']"),
        ({"tolerations": {}}, "pod.tolerations: must be a list of tolerations, as in a pod's spec. Given: {}"),
    ],
)
def test_what_is_wrong_is_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        pod_settings({"image": "qcnn", **given})
    assert str(error.value) == said


def test_what_is_unknown_or_missing_is_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"^pod\.cpus: unknown key; the keys are image, .*, log_format, vertex\. Given: 3$"
    ):
        pod_settings({"image": "qcnn", "cpus": 3})
    with pytest.raises(ConfigError, match=r"^pod\.image: must be given\. Given: none$"):
        pod_settings({})


def test_a_log_as_json_is_asked_for_by_the_environment_of_every_process() -> None:
    pod = pod_settings({"image": "qcnn", "environment": {"A": "1"}})
    assert pod.variables == {"A": "1", "QCNN_IMAGE": "qcnn"}
    assert pod_settings({**pod.model_dump(), "log_format": "json"}).variables == {
        "A": "1",
        "QCNN_LOG_FORMAT": "json",
        "QCNN_IMAGE": "qcnn",
    }
