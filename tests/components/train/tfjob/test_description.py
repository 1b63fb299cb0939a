"""An experiment as a job on a cluster."""

from typing import Any

import pytest

from components.train.tfjob.description import describe
from launchers.job import Pod
from launchers.kubernetes.identity import Identity
from launchers.tfjob.manifest import Policy, tfjob
from launchers.tfjob.read import OUTPUTS, argument
from trainer.config import from_json, from_mapping
from trainer.errors import ConfigError

POD = Pod(image="qcnn")


@pytest.mark.parametrize("output", ["gs://bucket", "s3://bucket/a/b/", "minio://bucket/a", "/data"])
def test_what_is_written_lies_in_a_folder_named_by_the_job(output: str) -> None:
    experiment = from_mapping({"qubits": 4, "workers": 3})
    job = tfjob(describe(experiment, output, POD), Identity("run", "train"), Policy(switch_seconds=None))
    name = job["metadata"]["name"]
    for folder, flag in OUTPUTS.items():
        assert argument(job, flag) == f"{output.rstrip('/')}/{name}/{folder}"
    assert from_json(argument(job, "--experiment") or "") == experiment
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


@pytest.mark.parametrize(
    ("output", "words", "said"),
    [
        ("runs", {}, "^output: must be gs://BUCKET/FOLDER, .* a volume. Given: runs$"),
        ("ftp://host/a", {}, "^address: must be .* Given: ftp://host/a$"),
        ("gs://bucket", {"continue_from": "runs/a"}, "^continue_from: must be in a bucket .* Given: runs/a$"),
        ("/data", {"continue_from": "gs://bucket/a"}, "^continue_from: must be in a bucket .* Given: gs://bucket/a$"),
    ],
)
def test_what_not_every_pod_could_reach_is_refused(output: str, words: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        describe(from_mapping({"options": words}), output, POD)
