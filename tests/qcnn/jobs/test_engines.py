"""Selection of the engine of a training job, with an in-memory API server."""

import contextlib
from collections.abc import Sequence

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.engines import AUTO, ENGINES, choose_engine
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.jobs.trainjob.engine import TRAINJOB
from tests.qcnn.jobs.apiserver import ApiServer

JOB = JobSpec(("train",), {"worker": 2}, 1, heartbeat_timeout_seconds=60, pod=PodSettings(image="qcnn"))
RUN = JobIdentity("run", "train")


def _chosen(wanted: str = AUTO) -> Engine:
    with contextlib.closing(NamespaceClient("a")) as api:
        return choose_engine(api, wanted, JOB, RUN)


def test_pod_setting_has_all_engines() -> None:
    description = PodSettings.model_fields["engine"].description
    assert description == f"one of {AUTO}, {', '.join(ENGINES)}"


@pytest.mark.parametrize(
    ("installed", "existing", "engine"),
    [
        ([TFJOB], None, TFJOB),
        ([TRAINJOB], None, TRAINJOB),
        ([TFJOB, TRAINJOB], None, TFJOB),
        ([TFJOB, TRAINJOB], TRAINJOB, TRAINJOB),
        ([TFJOB, TRAINJOB], TFJOB, TFJOB),
    ],
    ids=["TFJob only", "TrainJob only", "both", "existing TrainJob", "existing TFJob"],
)
def test_auto_takes_engine_of_existing_job_or_first_of_cluster(
    api_server: ApiServer,
    caplog: pytest.LogCaptureFixture,
    installed: Sequence[Engine],
    existing: Engine | None,
    engine: Engine,
) -> None:
    for each in ENGINES.values():
        if each not in installed:
            api_server.uninstall(each.name)
    if existing:
        api_server.put(existing.resource.plural, existing.manifest(JOB, RUN, JobTimeouts()))
    with caplog.at_level("INFO", "qcnn"):
        assert _chosen() is engine
    both = "the cluster has several engines; TFJob is taken (pod setting engine: trainjob)"
    assert caplog.messages == ([both] if len(installed) == 2 and not existing else [])


def test_auto_without_engine_names_what_to_install(api_server: ApiServer) -> None:
    for each in ENGINES.values():
        api_server.uninstall(each.name)
    with pytest.raises(ConfigError, match=r"^cluster: has no engine for training jobs; install .* Given: namespace a$"):
        _chosen()


@pytest.mark.parametrize("name", ENGINES)
def test_named_engine_is_taken_without_request(api_server: ApiServer, name: str) -> None:
    assert _chosen(name) is ENGINES[name]
    assert api_server.requests == []
