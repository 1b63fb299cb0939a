"""Prometheus and Grafana configuration in deploy/, compared with the served metrics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.manifest import OWN
from qcnn.jobs.kubernetes.training_manifest import CLUSTER_PORT, PROFILER_PORT, JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.monitoring.metrics import LauncherMetrics
from qcnn.pipelines.kubeflow import LAUNCHER_LABEL
from tests.monitored_process import Watched

DEPLOY = Path(__file__).parents[2] / "deploy"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Object]:
    found = yaml.safe_load_all((DEPLOY / "monitoring.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@pytest.fixture(scope="module")
def template() -> Object:
    pod = PodSettings(image="qcnn", metrics_port=9095)
    job = JobSpec(("train",), {"worker": 2}, restarts=1, heartbeat_timeout_seconds=60, pod=pod)
    manifest = TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts())
    return dict(manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"])


def _metrics(watched: Watched) -> dict[str, set[str]]:
    """Return the metrics of a training job and its launcher, with their labels."""
    launcher = LauncherMetrics("job", TFJOB.states)
    launcher.observe("Running", 1)
    found = [*watched.metrics, *launcher.registry.collect()]
    return {metric.name: {label for sample in metric.samples for label in sample.labels} for metric in found}


def _expressions() -> list[str]:
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_dashboard_shows_exactly_the_served_metrics(watched_training: Watched) -> None:
    served = _metrics(watched_training)
    assert set(re.findall(r"qcnn_\w+", " ".join(_expressions()))) == served.keys()
    assert {labels for labels in served if not served[labels]} == set()


def test_dashboard_uses_existing_labels(watched_training: Watched) -> None:
    served = _metrics(watched_training)
    for expression in _expressions():
        (name,) = re.findall(r"qcnn_\w+", expression)
        (selected,) = re.findall(r"\{(.*)\}", expression)
        used = {pair.split("=")[0].rstrip("!~ ").strip() for pair in selected.split(",")}
        for grouped in re.findall(r"by \((.*?)\)", expression):
            used |= {label.strip() for label in grouped.split(",")}
        assert used <= served[name], expression
    variables = json.loads((DEPLOY / "dashboard.json").read_text())["templating"]["list"]
    name, label = re.findall(r"label_values\((\w+), (\w+)\)", json.dumps(variables))[0]
    assert label in served[name]


def test_service_selects_training_pods_by_label_and_port_name(
    objects: dict[tuple[str, str], Object], template: Object
) -> None:
    service = objects["Service", "qcnn-metrics"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == OWN
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    (container,) = template["spec"]["containers"]
    assert port["targetPort"] in {each["name"] for each in container["ports"]}
    (endpoint,) = objects["ServiceMonitor", "qcnn-metrics"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
    # A Service with the labels of managed objects would look like an orphan of a training job.
    assert not service["metadata"]["labels"].items() & OWN.items()


def test_service_selects_launchers_by_label_of_pipelines(
    objects: dict[tuple[str, str], Object],
) -> None:
    service = objects["Service", "qcnn-launcher-metrics"]
    assert service["spec"]["selector"] == LAUNCHER_LABEL
    monitored = objects["ServiceMonitor", "qcnn-metrics"]["spec"]["selector"]["matchLabels"].items()
    for name in ("qcnn-metrics", "qcnn-launcher-metrics"):
        assert objects["Service", name]["metadata"]["labels"].items() >= monitored
    (port,) = service["spec"]["ports"]
    (rule,) = objects["NetworkPolicy", "qcnn-launcher-metrics"]["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [port["targetPort"]]


@pytest.mark.parametrize("name", ["qcnn-metrics", "qcnn-launcher-metrics"])
def test_policy_opens_only_metrics_port_to_prometheus(objects: dict[tuple[str, str], Object], name: str) -> None:
    policy, service = objects["NetworkPolicy", name]["spec"], objects["Service", name]["spec"]
    assert policy["podSelector"]["matchLabels"] == service["selector"]
    (rule,) = policy["ingress"]
    assert [list(peer) for peer in rule["from"]] == [["namespaceSelector"]]
    (port,) = rule["ports"]
    assert port["port"] == service["ports"][0]["targetPort"]
    assert port["port"] not in (CLUSTER_PORT, PROFILER_PORT)
