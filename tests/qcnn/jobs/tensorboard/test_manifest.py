"""TensorBoard's Deployment and Service, as the cluster gets them."""

from pathlib import Path

import pytest
import yaml

from qcnn.jobs.kubernetes.identity import OWN
from qcnn.jobs.pod import pod_settings
from qcnn.jobs.tensorboard.manifest import PORT, Board, deployment, service
from qcnn.trainer.errors import ConfigError

POD = pod_settings({"image": "qcnn:1", "service_account": "reader", "environment": {"A": "1"}})
BOARD = Board("tensorboard", ["gs://bucket/a", "gs://bucket/b"], POD)
POLICY = Path(__file__).parents[4] / "deploy" / "network.yaml"


def test_the_pod_mirrors_all_addresses_and_waits_for_what_is_not_logged_yet() -> None:
    (container,) = deployment(BOARD)["spec"]["template"]["spec"]["containers"]
    command = " ".join(container["command"])
    assert command == ("python -m cli tensorboard gs://bucket/a gs://bucket/b --listen 0.0.0.0 --port 6006 --wait")
    assert container["image"] == "qcnn:1"
    assert {"name": "A", "value": "1"} in container["env"]


def test_the_pod_speaks_to_no_api_and_may_be_in_a_restricted_namespace() -> None:
    spec = deployment(BOARD)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "reader"
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_the_service_finds_the_pod_and_its_port() -> None:
    made, template = service(BOARD)["spec"], deployment(BOARD)["spec"]["template"]
    assert made["type"] == "ClusterIP"
    (port,) = made["ports"]
    assert port["port"] == PORT == 5001
    assert template["metadata"]["labels"].items() >= made["selector"].items()
    assert port["targetPort"] in [each["name"] for each in template["spec"]["containers"][0]["ports"]]


def test_only_who_asks_for_it_is_public() -> None:
    public = Board("tensorboard", ["gs://bucket/a"], POD, public=True)
    assert service(public)["spec"]["type"] == "LoadBalancer"


def test_the_policy_of_trainings_lets_it_capture_profiles_and_is_not_about_it() -> None:
    labels = deployment(BOARD)["spec"]["template"]["metadata"]["labels"]
    (policy,) = yaml.safe_load_all(POLICY.read_text())
    allowed = [rule["from"][0]["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"]]
    assert any(labels.items() >= each.items() for each in allowed)
    assert not labels.items() >= OWN.items()


@pytest.mark.parametrize("name", ["", "A", "9", "a-", "a_b", "a" * 51])
def test_a_name_that_a_service_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^name: must be of at most 50 small letters.* Given: {name}$"):
        Board(name, ["gs://bucket/a"], POD)
