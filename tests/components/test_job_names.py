"""Names of jobs, and hashes of their settings, in all releases of this package."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from qcnn.components.training_job import cluster_job
from qcnn.experiment.config import ALL_FIELDS, ExperimentConfig, Options
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs import job as jobs
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB

_DEFAULTS = Path(__file__).with_name("job_defaults.json")
POD = PodSettings(image="registry/qcnn:1")
RUN = JobIdentity("tutorial", "train")


def _name(job: JobSpec) -> str:
    return str(TFJOB.manifest(job, RUN, JobTimeouts())["metadata"]["name"])


def _job(values: dict[str, Any], **of_data: str) -> JobSpec:
    return cluster_job(from_mapping(values), "gs://bucket/runs", POD, **of_data)


def test_defaults_are_those_of_digest_version() -> None:
    """A changed default needs a new `_DIGEST_VERSION`: names and hashes omit values that are defaults."""
    fields = {name: field.default for name, field in ALL_FIELDS.items()}
    pod = {name: field.default for name, field in PodSettings.model_fields.items() if not field.is_required()}
    found = {"experiment": fields, "pod": pod, "timeouts": dataclasses.asdict(JobTimeouts())}
    expected = json.loads(_DEFAULTS.read_text())
    assert expected.pop("version") == jobs._DIGEST_VERSION
    # Values of new fields may be added to the table without a new version.
    assert json.loads(json.dumps(found)) == expected


@pytest.mark.parametrize(
    ("job", "name"),
    [
        (_job({}), "tutorial-train-0-87cda5c9"),
        (_job({"qubits": 16, "model": "deep", "workers": 4, "options": {"chief": 1}}), "tutorial-train-0-88a7610b"),
        (_job({"data": "gs://bucket/rows.csv", "encoding": "ry"}, data_sha256=64 * "5"), "tutorial-train-0-e8342706"),
    ],
    ids=["default", "deep", "rows"],
)
def test_name_is_the_same_in_each_release(job: JobSpec, name: str) -> None:
    assert _name(job) == name


def test_name_does_not_depend_on_classical_models() -> None:
    assert _name(_job({"options": {"baseline": 1}})) == _name(_job({}))


def test_name_and_hash_do_not_depend_on_new_field_with_default(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = {name: field for name, field in Options.model_fields.items() if name != "shots"}
    without = {name: value for name, value in from_mapping({}).options.model_dump().items() if name in earlier}
    before = TFJOB.manifest(_job({}), RUN, JobTimeouts())
    monkeypatch.setattr(ExperimentConfig, "to_json", lambda self: json.dumps({"options": without}))
    after = TFJOB.manifest(_job({}), RUN, JobTimeouts())
    assert before["spec"] != after["spec"]
    assert before["metadata"] == after["metadata"]


def test_name_depends_on_values_that_change_the_result() -> None:
    file = {"data": "gs://bucket/rows.csv", "encoding": "ry"}
    different = [
        _job({}),
        _job({"seed": 1}),
        _job({"epochs": 3}),
        _job({"options": {"target_val_loss": "0.2"}}),
        _job({"options": {"intra_threads": 2}}),
        _job({}, dataset="gs://bucket/dataset"),
        _job(file, data_sha256=64 * "5"),
        _job(file, data_sha256=64 * "6"),
    ]
    assert len({_name(job) for job in different}) == len(different)


@pytest.mark.parametrize("field", [{"max_restarts": 9}, {"log_every": "batch"}, {"heartbeat_timeout_seconds": 90}])
def test_field_of_how_a_run_proceeds_changes_only_the_hash(field: dict[str, Any]) -> None:
    first, second = (
        TFJOB.manifest(_job({"options": options}), RUN, JobTimeouts())["metadata"] for options in ({}, field)
    )
    assert first["name"] == second["name"]
    assert first["annotations"][HASH_ANNOTATION] != second["annotations"][HASH_ANNOTATION]
