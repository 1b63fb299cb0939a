import json
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.trainer.distribution.roles import ClusterConfig, check_roles, parse_cluster

# Format of training-operator v1.9 (genTFConfigJSONStr).
CHIEF = ["train-chief-0.team.svc:2222"]
TFJOB_WORKERS = ["train-worker-0.team.svc:2222", "train-worker-1.team.svc:2222"]


def _tf_config(cluster: Any, role: Any, index: Any, **more: Any) -> dict[str, str]:
    task = {"type": role, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud", **more})}


def _parsed(environment: dict[str, str]) -> ClusterConfig:
    cluster = parse_cluster(environment)
    assert cluster is not None
    return cluster


def test_parse_cluster_tfjob_with_workers() -> None:
    cluster = {"worker": TFJOB_WORKERS}
    first, second = (_parsed(_tf_config(cluster, "worker", index)) for index in (0, 1))
    assert (first.role, first.index, first.is_chief) == ("worker", 0, True)
    assert (second.index, second.is_chief, second.counts) == (1, False, {"worker": 2})
    assert first.training_addresses == {"worker": tuple(TFJOB_WORKERS)}


def test_parse_cluster_tfjob_with_every_role() -> None:
    cluster = {
        "chief": ["train-chief-0.team.svc:2222"],
        "evaluator": ["train-evaluator-0.team.svc:2222"],
        "ps": ["train-ps-0.team.svc:2222"],
        "worker": TFJOB_WORKERS,
    }
    chief, worker, evaluator = (_parsed(_tf_config(cluster, role, 0)) for role in ("chief", "worker", "evaluator"))
    assert chief.is_chief
    assert not worker.is_chief
    assert not evaluator.is_chief
    assert chief.counts == {"chief": 1, "ps": 1, "worker": 2}
    assert "evaluator" not in chief.training_addresses


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, {"CLUSTER_SPEC": " "}])
def test_parse_cluster_single_process_is_none(environment: dict[str, str]) -> None:
    assert parse_cluster(environment) is None


def test_parse_cluster_vertex_tf_config() -> None:
    cluster = {
        "chief": ["cmle-training-workerpool0-ab-0:2222"],
        "worker": ["cmle-training-workerpool1-ab-0:2222", "cmle-training-workerpool1-ab-1:2222"],
    }
    chief = _parsed(_tf_config(cluster, "chief", 0, job='{"worker_count":"2"}'))
    worker = _parsed(_tf_config(cluster, "worker", 0))
    assert chief.is_chief
    assert not worker.is_chief
    assert worker.counts == {"chief": 1, "worker": 2}


def test_parse_cluster_vertex_cluster_spec() -> None:
    spec = {
        "cluster": {
            "workerpool0": ["cmle-training-workerpool0-ab-0:2222"],
            "workerpool1": ["cmle-training-workerpool1-ab-0:2222"],
            "workerpool2": ["cmle-training-workerpool2-ab-0:2222"],
            "workerpool3": ["cmle-training-workerpool3-ab-0:2222"],
        },
        "environment": "cloud",
        "task": {"type": "workerpool1", "index": 0},
        "job": "{}",
    }
    cluster = _parsed({"CLUSTER_SPEC": json.dumps(spec)})
    assert (cluster.role, cluster.index) == ("worker", 0)
    assert cluster.counts == {"chief": 1, "worker": 1, "ps": 1}
    assert set(cluster.addresses) == {"chief", "worker", "ps", "evaluator"}


def test_parse_cluster_prefers_tf_config() -> None:
    environment = _tf_config({"worker": ["a:1"]}, "worker", 0)
    assert _parsed({**environment, "CLUSTER_SPEC": "not read"}).role == "worker"


def test_parse_cluster_evaluator_outside_cluster() -> None:
    text = json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})
    assert _parsed({"TF_CONFIG": text}).role == "evaluator"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG: must be JSON"),
        ("[1]", "TF_CONFIG: must be an object"),
        ('{"cluster": {"worker": ["a:1"]}}', "TF_CONFIG: task must have type and index"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}', "TF_CONFIG: task must have type and index"),
        ('{"task": {"type": "worker", "index": 0}}', "TF_CONFIG: cluster must map roles to addresses"),
        ('{"cluster": {"boss": ["a:1"]}, "task": {"type": "boss", "index": 0}}', "TF_CONFIG: roles are chief, worker"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}', "TF_CONFIG: task.index must be"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "TF_CONFIG: task.index must be"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}', "TF_CONFIG: task.index must be"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}', "TF_CONFIG: task.index must be"),
        ('{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}', "TF_CONFIG: cluster.worker must be"),
        (
            '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}',
            "TF_CONFIG: cluster.worker must have a different address for each process. Given: a:1$",
        ),
        (
            '{"cluster": {"chief": ["a:1"], "ps": ["b:1", "a:1"]}, "task": {"type": "ps", "index": 0}}',
            "TF_CONFIG: cluster.ps must have a different address for each process. Given: a:1$",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:0"]}, "task": {"type": "worker", "index": 0}}',
            "TF_CONFIG: cluster.worker must have ports from 1 to 65535. Given: b:0$",
        ),
        (
            '{"cluster": {"worker": ["a:65536"]}, "task": {"type": "worker", "index": 0}}',
            "TF_CONFIG: cluster.worker must have ports from 1 to 65535. Given: a:65536$",
        ),
        (
            '{"cluster": {"worker": ["grpc://a:1"]}, "task": {"type": "worker", "index": 0}}',
            'TF_CONFIG: cluster.worker must be a list of host:port, without a scheme. Given: "grpc://a:1"$',
        ),
        # enableDynamicWorker
        ('{"cluster": {"worker": {"0": "a:1"}}, "task": {"type": "worker", "index": 0}}', "TF_CONFIG: cluster.worker"),
    ],
)
def test_parse_cluster_invalid_raises_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        parse_cluster({"TF_CONFIG": text})
    assert "\n" not in str(error.value)
    assert "Given: " in str(error.value)


@pytest.mark.parametrize(
    ("words", "cluster"),
    [
        ({"workers": 2}, {"worker": TFJOB_WORKERS}),
        ({"workers": 3, "options": {"chief": 1}}, {"chief": CHIEF, "worker": TFJOB_WORKERS}),
        # On Vertex AI one of the workers always has the role chief.
        ({"workers": 3}, {"chief": CHIEF, "worker": TFJOB_WORKERS}),
        ({"workers": 2, "options": {"evaluator": 1}}, {"worker": TFJOB_WORKERS, "evaluator": ["e:1"]}),
        # Vertex AI does not list the evaluator.
        ({"workers": 2, "options": {"evaluator": 1}}, {"worker": TFJOB_WORKERS}),
        ({"strategy": "parameter_server"}, {"chief": CHIEF, "worker": TFJOB_WORKERS, "ps": ["p:1"]}),
    ],
)
def test_check_roles_matching_cluster_passes(words: dict[str, Any], cluster: dict[str, list[str]]) -> None:
    check_roles(from_mapping(words), _parsed(_tf_config(cluster, "worker", 0)))


@pytest.mark.parametrize(
    ("words", "cluster", "message"),
    [
        ({"workers": 3}, {"worker": TFJOB_WORKERS}, "lists 2 worker, .* requires 3 worker. Given: workers 3"),
        ({"workers": 2}, {"chief": CHIEF, "worker": TFJOB_WORKERS}, "lists 1 chief, 2 worker, .* requires 2 worker"),
        ({"workers": 2}, {"worker": TFJOB_WORKERS, "ps": ["p:1"]}, "lists 2 worker, 1 ps, .* requires 2 worker"),
        ({"strategy": "parameter_server"}, {"worker": TFJOB_WORKERS}, "requires 1 chief, 2 worker, 1 ps"),
    ],
)
def test_check_roles_other_cluster_raises(words: dict[str, Any], cluster: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^workers: TF_CONFIG or CLUSTER_SPEC .*{message}"):
        check_roles(from_mapping(words), _parsed(_tf_config(cluster, "worker", 0)))


def test_check_roles_without_cluster_requires_one_process() -> None:
    check_roles(from_mapping({"workers": 1}), None)
    with pytest.raises(ConfigError, match=r"^workers: must be 1 training process without .*Given: 3 worker"):
        check_roles(from_mapping({"workers": 3}), None)
