"""TrainJobs and their TrainingRuntimes. The tests in tests/cluster submit them to an API server."""

import contextlib
import dataclasses
import datetime
import json
from typing import Any

import pytest

from qcnn.errors import ConfigError, RetryableError
from qcnn.jobs.job import CreateOutcome, JobIdentity, JobSpec, tf_config
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import create_or_adopt
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.pods import processes_of_job
from qcnn.jobs.kubernetes.status import status_of
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.jobs.trainjob.engine import TRAINJOB
from tests.qcnn.jobs.apiserver import NAMESPACE, ApiServer

POD = PodSettings(image="qcnn", memory="1Gi", queue="team")
OUTPUTS = {"training": "gs://bucket/$(QCNN_JOB)/training"}
JOB = JobSpec(("train",), {"worker": 2}, 3, heartbeat_timeout_seconds=60, pod=POD, outputs=OUTPUTS)
ROLES = dataclasses.replace(JOB, replicas={"chief": 1, "worker": 2, "ps": 1, "evaluator": 1})
RUN = JobIdentity("run", "train")


def _runtime(job: JobSpec, timeouts: JobTimeouts | None = None) -> Manifest:
    ((_, runtime),) = TRAINJOB.training(job, RUN, timeouts or JobTimeouts()).prerequisites
    return runtime


def _jobs(job: JobSpec) -> dict[str, Any]:
    return {
        each["name"]: each["template"]["spec"] for each in _runtime(job)["spec"]["template"]["spec"]["replicatedJobs"]
    }


def _environment(spec: dict[str, Any]) -> dict[str, Any]:
    (container,) = spec["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@pytest.mark.parametrize("job", [JOB, ROLES])
def test_name_outputs_and_digests_are_those_of_a_tfjob(job: JobSpec) -> None:
    ours, theirs = (engine.manifest(job, RUN, JobTimeouts())["metadata"] for engine in (TRAINJOB, TFJOB))
    assert ours["annotations"].pop("qcnn/replicas") == json.dumps(job.replicas)
    assert ours == theirs


def test_each_role_is_a_replicated_job() -> None:
    jobs = _jobs(ROLES)
    assert {role: spec["completions"] for role, spec in jobs.items()} == ROLES.replicas
    manifest = TRAINJOB.manifest(ROLES, RUN, JobTimeouts())
    assert manifest["spec"]["trainer"] == {"numNodes": 1}
    assert TRAINJOB.replicas(manifest) == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)]
    template = _runtime(ROLES)["spec"]["template"]["spec"]
    assert template["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["chief"]}
    assert template["failurePolicy"]["maxRestarts"] == 3


@pytest.mark.parametrize(("role", "index"), [("chief", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)])
def test_tf_config_is_that_of_the_training_operator(role: str, index: int) -> None:
    name = TRAINJOB.manifest(ROLES, RUN, JobTimeouts())["metadata"]["name"]
    environment = _environment(_jobs(ROLES)[role])
    field = environment["QCNN_INDEX"]["fieldRef"]["fieldPath"]
    assert field == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    addresses = {
        each: [f"{name}-{each}-0-{number}.{name}:2222" for number in range(ROLES.replicas[each])]
        for each in ("chief", "worker", "ps")
    }
    inserted = environment["TF_CONFIG"].replace("$(QCNN_INDEX)", str(index))
    assert json.loads(inserted) == json.loads(tf_config(addresses, role, index))


def test_single_process_has_no_tf_config() -> None:
    environment = _environment(_jobs(dataclasses.replace(JOB, replicas={"worker": 1}))["worker"])
    assert not {"TF_CONFIG", "QCNN_INDEX"} & environment.keys()


def test_process_is_that_of_a_tfjob() -> None:
    ours = _jobs(JOB)["worker"]["template"]
    theirs = TFJOB.manifest(JOB, RUN, JobTimeouts())["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    (container,), (other,) = ours["spec"]["containers"], theirs["spec"]["containers"]
    assert container["name"] == "node"
    same = ("image", "command", "resources", "securityContext", "volumeMounts", "ports")
    assert all(container[each] == other[each] for each in same)
    assert container["env"][: len(other["env"])] == other["env"]
    pod = {key: value for key, value in ours["spec"].items() if key not in ("containers", "affinity", "restartPolicy")}
    assert pod == {key: theirs["spec"][key] for key in pod}


def test_permanent_exit_codes_fail_the_job() -> None:
    (rule,) = _jobs(JOB)["worker"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == list(range(1, 128))
    (failure,) = _runtime(JOB)["spec"]["template"]["spec"]["failurePolicy"]["rules"]
    assert (failure["action"], failure["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


def test_process_waits_for_the_end_of_the_one_that_it_replaces() -> None:
    assert _jobs(JOB)["worker"]["podReplacementPolicy"] == "Failed"


def test_only_the_job_is_queued() -> None:
    assert TRAINJOB.manifest(JOB, RUN, JobTimeouts())["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "kueue" not in json.dumps(_runtime(JOB))


def test_runtime_has_another_name_with_other_settings() -> None:
    larger = dataclasses.replace(JOB, pod=POD.model_copy(update={"memory": "8Gi"}))
    names = {_runtime(job)["metadata"]["name"] for job in (JOB, larger)}
    assert len(names) == 2
    assert TRAINJOB.manifest(JOB, RUN, JobTimeouts())["spec"]["runtimeRef"]["name"] in names


def test_timeouts_are_set() -> None:
    timeouts = JobTimeouts(active_deadline_seconds=60, ttl_seconds_after_finished=70)
    assert TRAINJOB.manifest(JOB, RUN, timeouts)["spec"]["activeDeadlineSeconds"] == 60
    assert _runtime(JOB, timeouts)["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] == 70


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "New"),
        ({"jobsStatus": [{"name": "worker", "active": 0, "ready": 0}]}, "Created"),
        ({"jobsStatus": [{"name": "worker", "active": 2, "ready": 0}]}, "Running"),
        # As after a resumption, at which the condition becomes false.
        ({"conditions": [{"type": "Suspended", "status": "False"}], "jobsStatus": [{"active": 1}]}, "Running"),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "Succeeded"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "Failed"),
    ],
)
def test_state_follows_from_status(status: dict[str, Any], state: str) -> None:
    manifest = {**TRAINJOB.manifest(JOB, RUN, JobTimeouts()), "status": status}
    assert TRAINJOB.state(manifest) == state
    manifest["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert TRAINJOB.state(manifest) == "Deleting"


def test_duration_is_from_creation_to_last_condition() -> None:
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-31T11:00:09Z"}
    manifest = {**TRAINJOB.manifest(JOB, RUN, JobTimeouts()), "status": {"conditions": [complete]}}
    manifest["metadata"] |= {"uid": "1-2-3", "creationTimestamp": "2026-01-31T11:00:00Z"}
    assert status_of(TRAINJOB, manifest, [], [], now).duration == 9
    assert status_of(TRAINJOB, {**manifest, "status": {}}, [], [], now).duration is None


def _pod(attempt: int, created: str, exit_code: int | None = None) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "a",
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": "0",
    }
    state = {"running": {}} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    return {
        "metadata": {"name": f"a-worker-0-0-{created}", "uid": created, "labels": labels, "creationTimestamp": created},
        "status": {"containerStatuses": [{"name": "node", "state": state}]},
    }


def test_process_is_that_of_the_newest_pod() -> None:
    job = {"metadata": {"name": "a", "uid": "job", "creationTimestamp": "2026-01-31T12:00:00Z"}}
    of_earlier_job = _pod(0, "2026-01-31T11:59:59Z")
    lost, suspended, current = (
        _pod(0, "2026-01-31T12:00:01Z", 137),
        _pod(1, "2026-01-31T12:00:02Z", 143),
        _pod(1, "2026-01-31T12:00:09Z"),
    )
    (process,) = processes_of_job([current, lost, suspended, of_earlier_job], job, TRAINJOB)
    assert (process.uid, process.attempt, process.exit_code) == (current["metadata"]["uid"], 1, None)
    assert processes_of_job([of_earlier_job], job, TRAINJOB) == []


def test_pods_of_other_jobs_are_ignored() -> None:
    job = {"metadata": {"name": "a", "uid": "job", "creationTimestamp": "2026-01-31T12:00:00Z"}}
    of_other_job, of_tfjob = _pod(0, "2026-01-31T12:00:01Z"), _pod(0, "2026-01-31T12:00:02Z")
    of_other_job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "b"
    of_tfjob["metadata"]["labels"] = {"training.kubeflow.org/job-name": "a"}
    of_platform = _pod(0, "2026-01-31T12:00:03Z")
    of_platform["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "dataset-initializer"
    assert processes_of_job([of_other_job, of_tfjob, of_platform], job, TRAINJOB) == []


RUNTIME_POD = PodSettings(image="qcnn", memory="1Gi", runtime="team")
RUNTIME = dataclasses.replace(JOB, pod=RUNTIME_POD)


def test_runtime_of_platform_keeps_all_but_image_command_number_resources_and_environment() -> None:
    training = TRAINJOB.training(RUNTIME, RUN, JobTimeouts(lease_seconds=None))
    assert not training.prerequisites
    spec, name = training.manifest["spec"], training.name
    assert spec["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "team"}
    assert spec.keys() == {"runtimeRef", "trainer"}
    trainer = spec["trainer"]
    assert trainer.keys() == {"image", "command", "numNodes", "resourcesPerNode", "env"}
    assert (trainer["image"], trainer["command"], trainer["numNodes"]) == ("qcnn", ["train"], 2)
    assert trainer["resourcesPerNode"]["limits"] == {"memory": "1Gi"}
    variables = {each["name"]: each.get("value") for each in trainer["env"]}
    cluster = json.loads(variables["TF_CONFIG"].replace("$(QCNN_INDEX)", "1"))
    assert cluster["task"] == {"type": "worker", "index": 1}
    assert cluster["cluster"] == {"worker": [f"{name}-node-0-{index}.{name}:2222" for index in range(2)]}
    assert TRAINJOB.pod_name(training.manifest, "worker", 1) == f"{name}-node-0-1-"
    (service,) = TRAINJOB.services(training.manifest)
    assert service["spec"]["selector"]["jobset.sigs.k8s.io/replicatedjob-name"] == "node"
    pod = _pod(0, "2026-01-31T12:00:01Z")
    pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "node"
    job = {"metadata": {"name": "a", "uid": "job", "creationTimestamp": "2026-01-31T12:00:00Z"}}
    (process,) = processes_of_job([pod], job, TRAINJOB)
    assert process.name == "worker 0"


def test_train_step_of_pipeline_has_runtime() -> None:
    # Pipelines pass all settings as JSON, also those that are defaults.
    pod = pod_settings(json.loads(json.dumps(RUNTIME_POD.model_dump())))
    job = dataclasses.replace(RUNTIME, pod=pod)
    assert TRAINJOB.manifest(job, RUN, JobTimeouts())["spec"] == TRAINJOB.manifest(RUNTIME, RUN, JobTimeouts())["spec"]


def test_runtime_of_namespace() -> None:
    job = dataclasses.replace(JOB, pod=PodSettings(image="qcnn", runtime="TrainingRuntime/team"))
    reference = TRAINJOB.manifest(job, RUN, JobTimeouts())["spec"]["runtimeRef"]
    assert (reference["kind"], reference["name"]) == ("TrainingRuntime", "team")


@pytest.mark.parametrize(
    ("engine", "replicas", "settings", "message"),
    [
        (TRAINJOB, {"chief": 1, "worker": 2}, {}, "pod.runtime: has only workers, and no chief. Given: team"),
        (
            TRAINJOB,
            {"worker": 2},
            {"spot": True, "priority_class": "low"},
            "pod.runtime: determines priority_class, spot, which must be omitted. Given: team",
        ),
        (TFJOB, {"worker": 2}, {}, "pod.runtime: only a TrainJob has one. Given: team"),
    ],
)
def test_job_that_runtime_cannot_run_is_rejected(
    engine: Engine, replicas: dict[str, int], settings: dict[str, Any], message: str
) -> None:
    job = dataclasses.replace(RUNTIME, replicas=replicas, pod=PodSettings(image="qcnn", runtime="team", **settings))
    with pytest.raises(ConfigError) as caught:
        engine.manifest(job, RUN, JobTimeouts())
    assert str(caught.value) == message


def test_job_is_created_when_webhook_finds_its_runtime(api_server: ApiServer) -> None:
    training = TRAINJOB.training(JOB, RUN, JobTimeouts())
    api_server.uncached_runtimes = 2
    with contextlib.closing(NamespaceClient(NAMESPACE)) as api:
        created, outcome = create_or_adopt(api, TRAINJOB, training.manifest, prerequisites=training.prerequisites)
    assert outcome is CreateOutcome.CREATED
    (runtime,) = api_server.all("trainingruntimes")
    assert runtime["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]


def test_runtime_is_deleted_if_its_job_is_rejected(api_server: ApiServer) -> None:
    training = TRAINJOB.training(JOB, RUN, JobTimeouts())
    api_server.rejected.add(("create", "trainjobs"))
    with contextlib.closing(NamespaceClient(NAMESPACE)) as api, pytest.raises(ConfigError, match=r"^permission: "):
        create_or_adopt(api, TRAINJOB, training.manifest, prerequisites=training.prerequisites)
    assert not api_server.all("trainingruntimes")


def test_job_whose_deletion_does_not_end_is_retryable_error(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The foreground deletion of a TrainJob, for example by kubectl, never ends.
    monkeypatch.setattr("qcnn.jobs.kubernetes.create_or_adopt._DELETION_SECONDS", 0.0)
    training = TRAINJOB.training(JOB, RUN, JobTimeouts())
    metadata = {**training.manifest["metadata"], "deletionTimestamp": "2026-01-31T12:00:00Z"}
    api_server.put("trainjobs", {**training.manifest, "metadata": metadata})
    with contextlib.closing(NamespaceClient(NAMESPACE)) as api, pytest.raises(RetryableError) as caught:
        create_or_adopt(api, TRAINJOB, training.manifest, prerequisites=training.prerequisites)
    message = "TrainJob: it still exists 0 s after its deletion; see the finalizers in its metadata. Given: "
    assert str(caught.value) == message + training.name
