"""Manifests of TFJobs. The tests in tests/cluster submit them to an API server."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION, QUEUE_LABEL, RUN_ANNOTATION, TRAINING_ANNOTATION, Manifest
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, lease
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.tfjob.engine import TFJOB

POD = PodSettings(image=f"registry/qcnn@sha256:{64 * '0'}")
JOB = JobSpec(argv=("python", "train.py"), replicas={"worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=POD)
RUN = JobIdentity("3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce", "train")
POLICY = JobTimeouts()
# training-operator v1.9.4, tfjob_webhook.go: NameIsDNS1035Label.
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _name(job: JobSpec = JOB, identity: JobIdentity = RUN, policy: JobTimeouts = POLICY) -> str:
    return str(TFJOB.manifest(job, identity, policy)["metadata"]["name"])


def test_name_depends_on_identity_command_and_replicas() -> None:
    names = [
        _name(),
        _name(identity=dataclasses.replace(RUN, run="another")),
        _name(identity=dataclasses.replace(RUN, task="another")),
        _name(identity=dataclasses.replace(RUN, iteration=1)),
        _name(dataclasses.replace(JOB, argv=("python", "other.py"))),
        _name(dataclasses.replace(JOB, replicas={"worker": 3})),
    ]
    assert len(set(names)) == len(names)
    assert _name() == names[0]


@pytest.mark.parametrize(
    ("job", "policy"),
    [
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"memory": "8Gi"})), POLICY),
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"image": f"registry/qcnn@sha256:{64 * '1'}"})), POLICY),
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"labels": {"team": "physics"}})), POLICY),
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"queue": "team"})), POLICY),
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"priority_class": "high"})), POLICY),
        (dataclasses.replace(JOB, pod=POD.model_copy(update={"topology_spread": "zone"})), POLICY),
        (dataclasses.replace(JOB, pod=pod_settings({"image": POD.image, "roles": {"worker": {"cpu": 2}}})), POLICY),
        (dataclasses.replace(JOB, restarts=9), POLICY),
        (JOB, JobTimeouts(ttl_seconds_after_finished=60)),
        (JOB, JobTimeouts(lease_seconds=None)),
    ],
    ids=["memory", "image", "labels", "queue", "priority", "spread", "roles", "restarts", "TTL", "no lease"],
)
def test_pod_settings_and_timeouts_change_hash_but_not_name(job: JobSpec, policy: JobTimeouts) -> None:
    first, second = (TFJOB.manifest(each, RUN, of)["metadata"] for each, of in ((JOB, POLICY), (job, policy)))
    assert first["name"] == second["name"]
    assert first["annotations"][TRAINING_ANNOTATION] == second["annotations"][TRAINING_ANNOTATION]
    assert first["annotations"][HASH_ANNOTATION] != second["annotations"][HASH_ANNOTATION]


def test_name_is_stable_between_releases() -> None:
    assert _name() == "r3f2a9c1e-7d54-4c0b-9d7a-5-train-0-868767aa"


def test_hash_is_stable_between_releases() -> None:
    hashed = TFJOB.manifest(JOB, RUN, POLICY)["metadata"]["annotations"][HASH_ANNOTATION]
    assert hashed == "c6c1bd4d8b43370b819e4bd276810a5b9a4063a047dd6d76c18b7bca7216d13b"


def test_lease_watch_command_does_not_change_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TFJOB.manifest(JOB, RUN, POLICY)
    monkeypatch.setattr("qcnn.jobs.kubernetes.training_manifest._LEASE_WATCH", ("watch",))
    after = TFJOB.manifest(JOB, RUN, POLICY)
    assert after["metadata"] == before["metadata"]
    assert after["spec"] != before["spec"]


def test_roles_without_processes_do_not_change_name() -> None:
    assert _name(dataclasses.replace(JOB, replicas={"worker": 2, "ps": 0})) == _name()


@pytest.mark.parametrize("run", ["3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce", "Ünïcode Run_7!", "x", "-", "run-" * 40])
@pytest.mark.parametrize("task", ["train", "Train on many workers of a cluster", "t"])
@pytest.mark.parametrize("iteration", [0, 123456])
def test_name_is_dns_label_with_space_for_pod_suffix(run: str, task: str, iteration: int) -> None:
    name = _name(identity=JobIdentity(run, task, iteration))
    assert len(name) <= 43
    assert DNS_1035.fullmatch(name)
    assert f"-{iteration}-" in name
    assert len(f"{name}-evaluator-0-0-x7k2p") <= 63


def test_long_runs_with_equal_prefix_have_distinct_names() -> None:
    first, second = (_name(identity=JobIdentity("run-" * 40 + end, "train")) for end in "ab")
    assert first != second


def test_owner_only_adds_owner_reference() -> None:
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "qcnn-x", "uid": "1-2-3"}
    owned = TFJOB.manifest(JOB, RUN, POLICY, owner)
    assert owned["metadata"].pop("ownerReferences") == [owner]
    assert owned == TFJOB.manifest(JOB, RUN, POLICY)


def test_roles_have_operator_names_and_exit_code_policy() -> None:
    job = dataclasses.replace(JOB, replicas={"chief": 1, "worker": 2, "ps": 1, "evaluator": 1})
    replicas = TFJOB.manifest(job, RUN, POLICY)["spec"]["tfReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in replicas.items()} == {
        "Chief": 1,
        "Worker": 2,
        "PS": 1,
        "Evaluator": 1,
    }
    for spec in replicas.values():
        assert spec["restartPolicy"] == "ExitCode"
        (container,) = spec["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert [port["containerPort"] for port in container["ports"]] == [2222, 2223]


def test_metrics_port_is_set_only_if_requested() -> None:
    job = dataclasses.replace(JOB, replicas={"chief": 1, "worker": 2, "ps": 1, "evaluator": 1})
    with_metrics = dataclasses.replace(job, pod=POD.model_copy(update={"metrics_port": 9095}))
    plain, manifest = TFJOB.manifest(job, RUN, POLICY), TFJOB.manifest(with_metrics, RUN, POLICY)
    assert "METRICS" not in str(plain)
    assert manifest["metadata"]["name"] == plain["metadata"]["name"]
    for spec in manifest["spec"]["tfReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        assert {"name": "metrics", "containerPort": 9095} in container["ports"]
        assert {"name": "QCNN_METRICS_PORT", "value": "9095"} in container["env"]


@pytest.mark.parametrize("port", [2222, 2223])
def test_metrics_port_of_tensorflow_is_config_error(port: int) -> None:
    job = dataclasses.replace(JOB, pod=POD.model_copy(update={"metrics_port": port}))
    with pytest.raises(ConfigError) as error:
        TFJOB.manifest(job, RUN, POLICY)
    message = "pod.metrics_port: must not be 2222 or 2223, which TensorFlow uses."
    assert str(error.value) == f"{message} Given: {port}"


def test_run_policy_contains_timeouts_and_restarts() -> None:
    spec = TFJOB.manifest(JOB, RUN, JobTimeouts(active_deadline_seconds=100, ttl_seconds_after_finished=7))["spec"]
    assert spec["runPolicy"] == {
        "activeDeadlineSeconds": 100,
        "backoffLimit": 3,
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": 7,
    }
    assert spec["successPolicy"] == ""


def _template(pod: PodSettings, policy: JobTimeouts = POLICY) -> dict[str, Any]:
    manifest = TFJOB.manifest(dataclasses.replace(JOB, pod=pod), RUN, policy)
    return dict(manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"])


def test_pod_template_contains_pod_settings() -> None:
    pod = PodSettings(
        image="registry/qcnn:1",
        pull_policy="Never",
        pull_secrets=("registry",),
        service_account="trainer",
        cpu="500m",
        memory="1Gi",
        gpus=2,
        environment={"A": "b"},
        volumes={"/data": {"emptyDir": {}}},
        node_selector={"pool": "spot"},
        tolerations=({"key": "spot", "operator": "Exists"},),
        labels={"team": "physics"},
    )
    template = _template(pod)
    spec = template["spec"]
    assert template["metadata"]["labels"].items() >= {"team": "physics", "sidecar.istio.io/inject": "false"}.items()
    assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false", RUN_ANNOTATION: RUN.run}
    assert spec["serviceAccountName"] == "trainer"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "spot"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("registry/qcnn:1-gpu", "Never")
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "2"},
    }
    assert {"name": "A", "value": "b"} in container["env"]
    assert {"name": "QCNN_GPUS", "value": "2"} in container["env"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp", "/data"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_accelerator_and_spot_become_node_labels() -> None:
    node = _template(
        PodSettings(image="qcnn", gpus=1, accelerator="nvidia-l4", spot=True, node_selector={"pool": "a"})
    )["spec"]
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-spot": "true", "pool": "a"}
    assert node["nodeSelector"] == labels
    assert node["tolerations"] == [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]


@pytest.mark.parametrize("seconds", [None, 600])
def test_pods_have_least_privileges(seconds: int | None) -> None:
    spec = _template(POD, JobTimeouts(lease_seconds=seconds))["spec"]
    # A group other than root, which can write to volumes that root owns.
    assert spec["securityContext"].items() >= {"runAsNonRoot": True, "fsGroup": 10001}.items()
    (container,) = spec["containers"]
    assert container["securityContext"]["runAsGroup"] == 10001
    # Only the lease watch needs the API server.
    assert spec["automountServiceAccountToken"] is (seconds is not None)
    (temporary,) = spec["volumes"]
    assert temporary["emptyDir"]["sizeLimit"]


def test_processes_prefer_distinct_nodes() -> None:
    manifest = TFJOB.manifest(JOB, RUN, POLICY)
    affinity = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"]
    ((kind, terms),) = affinity["podAntiAffinity"].items()
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"
    selector = terms[0]["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert selector == {"training.kubeflow.org/job-name": manifest["metadata"]["name"]}


def test_only_job_has_queue_label() -> None:
    queued = TFJOB.manifest(dataclasses.replace(JOB, pod=POD.model_copy(update={"queue": "team"})), RUN, POLICY)
    assert queued["metadata"]["labels"][QUEUE_LABEL] == "team"
    template = queued["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    for labelled in (template, TFJOB.services(queued)[0], lease(queued, "me", 30, "2026-01-31T12:00:00.000000Z")):
        assert QUEUE_LABEL not in labelled["metadata"]["labels"]
    # A manifest that is applied again must not suspend an active job.
    assert "suspend" not in queued["spec"]["runPolicy"]
    assert QUEUE_LABEL not in TFJOB.manifest(JOB, RUN, POLICY)["metadata"]["labels"]


def test_topology_spread_is_preferred_not_required() -> None:
    template = _template(
        PodSettings(image="qcnn", priority_class="high", topology_spread="topology.kubernetes.io/zone")
    )
    assert template["spec"]["priorityClassName"] == "high"
    (constraint,) = template["spec"]["topologySpreadConstraints"]
    name = TFJOB.manifest(JOB, RUN, POLICY)["metadata"]["name"]
    assert constraint == {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": name}},
    }
    assert not _template(POD)["spec"].keys() & {"priorityClassName", "topologySpreadConstraints"}


def test_roles_have_separate_resources() -> None:
    roles = {"chief": {"memory": "8Gi"}, "worker": {"cpu": 4, "gpus": 2}}
    pod = pod_settings({"image": "qcnn", "accelerator": "nvidia-l4", "roles": roles})
    job = dataclasses.replace(JOB, pod=pod, replicas={"chief": 1, "worker": 2, "ps": 1})
    specs = TFJOB.manifest(job, RUN, POLICY)["spec"]["tfReplicaSpecs"]
    pods = {role: spec["template"]["spec"] for role, spec in specs.items()}
    assert {role: spec["containers"][0]["resources"]["requests"] for role, spec in pods.items()} == {
        "Chief": {"cpu": "1", "memory": "8Gi"},
        "Worker": {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": "2"},
        "PS": {"cpu": "1", "memory": "2Gi"},
    }
    assert {role: "nodeSelector" in spec for role, spec in pods.items()} == {
        "Chief": False,
        "Worker": True,
        "PS": False,
    }


@pytest.mark.parametrize("volumes", [{}, {"/data": {"emptyDir": {}}}], ids=["no volume", "deleted with its pod"])
def test_output_outside_persistent_volume_is_config_error(volumes: dict[str, Any]) -> None:
    outputs = {"training": "/data/runs/$(QCNN_JOB)/training"}
    with pytest.raises(ConfigError, match=r"^output: must be in a bucket, or .* \(pod\.volumes\)\. Given: /data/runs$"):
        TFJOB.manifest(
            dataclasses.replace(JOB, pod=POD.model_copy(update={"volumes": volumes}), outputs=outputs), RUN, POLICY
        )
    claimed = POD.model_copy(update={"volumes": {"/data": {"persistentVolumeClaim": {"claimName": "outputs"}}}})
    manifest = TFJOB.manifest(dataclasses.replace(JOB, pod=claimed, outputs=outputs), RUN, POLICY)
    (container,) = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert "/data" in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_lease_watch_runs_only_with_lease_duration() -> None:
    def commands(policy: JobTimeouts) -> list[list[str]]:
        specs = TFJOB.manifest(dataclasses.replace(JOB, replicas={"chief": 1, "worker": 2}), RUN, policy)["spec"]
        return [spec["template"]["spec"]["containers"][0]["command"] for spec in specs["tfReplicaSpecs"].values()]

    assert commands(JobTimeouts(lease_seconds=None)) == [["python", "train.py"]] * 2
    name = _name(dataclasses.replace(JOB, replicas={"chief": 1, "worker": 2}))
    watch = [
        "python",
        "-m",
        "qcnn.jobs.kubernetes.lease_watch",
        "--lease",
        name,
        "--account",
        "default",
        "--seconds",
        "30",
    ]
    assert commands(JobTimeouts(lease_seconds=30)) == [[*watch, "--", "python", "train.py"]] * 2


@pytest.mark.parametrize(
    "dependent", [lambda job: TFJOB.services(job)[0], lambda job: lease(job, "me", 30, "2026-01-31T12:00:00.000000Z")]
)
def test_dependents_have_owner_labels_and_run(dependent: Callable[[Manifest], Manifest]) -> None:
    job = TFJOB.manifest(JOB, RUN, POLICY)
    job["metadata"]["uid"] = "1-2-3"
    manifest = dependent(job)
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": job["metadata"]["name"],
        "uid": "1-2-3",
    }
    assert manifest["metadata"]["labels"] == job["metadata"]["labels"]
    assert manifest["metadata"]["annotations"] == {RUN_ANNOTATION: RUN.run}


@pytest.mark.parametrize("replicas", [{}, {"worker": 0}, {"ps": 1}, {"chief": 2}, {"worker": 1, "master": 1}])
def test_invalid_replicas_are_config_error(replicas: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"^replicas: .* Given: "):
        TFJOB.manifest(dataclasses.replace(JOB, replicas=replicas), RUN, POLICY)


def test_job_without_image_is_config_error() -> None:
    with pytest.raises(ConfigError, match=r"^pod: .* Given: none$"):
        TFJOB.manifest(dataclasses.replace(JOB, pod=None), RUN, POLICY)


def test_gpu_count_of_role_is_in_environment() -> None:
    pod = pod_settings({"image": "qcnn", "gpus": 2, "roles": {"chief": {"gpus": 0}}})
    job = dataclasses.replace(JOB, replicas={"chief": 1, "worker": 1}, pod=pod)
    manifest = TFJOB.manifest(job, RUN, JobTimeouts())
    gpus = {}
    for role, spec in manifest["spec"]["tfReplicaSpecs"].items():
        environment = {each["name"]: each.get("value") for each in spec["template"]["spec"]["containers"][0]["env"]}
        gpus[role] = environment.get("QCNN_GPUS")
    assert gpus == {"Chief": None, "Worker": "2"}
    # GPUs do not change the name.
    without = dataclasses.replace(job, pod=pod_settings({"image": "qcnn"}))
    assert TFJOB.manifest(without, RUN, JobTimeouts())["metadata"]["name"] == manifest["metadata"]["name"]
