"""Decision to create, replace or adopt a job. tests/cluster tests it with an API server."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.create_or_adopt import NextAction, next_action
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION, JOB, TRAINING_ANNOTATION, JobKind
from qcnn.jobs.tfjob.engine import TFJOB


def _job(state: str = "Running", training: str = "1", spec: str = "1", *, deleted: bool = False) -> dict[str, Any]:
    annotations = {TRAINING_ANNOTATION: training, HASH_ANNOTATION: spec}
    deletion = {"deletionTimestamp": "2026-01-31T12:00:00Z"} if deleted else {}
    return {
        "metadata": {"name": "a", "namespace": "b", "annotations": annotations, **deletion},
        "status": {"conditions": [{"type": "Created", "status": "True"}, {"type": state, "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("kind", "existing", "action"),
    [
        (TFJOB, None, NextAction.CREATE),
        (TFJOB, _job(), NextAction.ADOPT),
        (TFJOB, _job("Restarting"), NextAction.ADOPT),
        (TFJOB, _job("Suspended"), NextAction.ADOPT),
        (TFJOB, _job("Succeeded"), NextAction.RETURN),
        (TFJOB, _job("Failed"), NextAction.REPLACE),
        (TFJOB, _job(deleted=True), NextAction.REPLACE),
        (TFJOB, _job("Succeeded", deleted=True), NextAction.REPLACE),
        # Other settings are an error only while the job runs.
        (TFJOB, _job("Succeeded", spec="2"), NextAction.RETURN),
        (TFJOB, _job("Failed", spec="2"), NextAction.REPLACE),
        (TFJOB, _job(spec="2", deleted=True), NextAction.REPLACE),
        (JOB, _job("Complete"), NextAction.RETURN),
        (JOB, _job("Succeeded"), NextAction.ADOPT),
    ],
)
def test_next_action_depends_on_existing_job(
    kind: JobKind, existing: dict[str, Any] | None, action: NextAction
) -> None:
    assert next_action(kind, _job(), existing) is action


def test_next_action_adopts_job_without_status() -> None:
    existing = _job()
    del existing["status"]
    assert next_action(TFJOB, _job(), existing) is NextAction.ADOPT


@pytest.mark.parametrize("state", ["Running", "Succeeded", "Failed"])
def test_next_action_for_other_experiment_is_an_error(state: str) -> None:
    with pytest.raises(ConfigError, match=r"^TFJob: a job of this name belongs to another experiment\. Given: a$"):
        next_action(TFJOB, _job(), _job(state, training="2"))
    bare = {"metadata": {"name": "a"}}
    with pytest.raises(ConfigError, match=r"^TFJob: a job of this name belongs to another experiment\. Given: a$"):
        next_action(TFJOB, _job(), bare)


def test_next_action_for_other_settings_is_an_error() -> None:
    message = r"^TFJob: already runs with other settings; .*: qcnn delete a --namespace b\. Given: a$"
    with pytest.raises(ConfigError, match=message):
        next_action(TFJOB, _job(), _job(spec="2"))
