"""The target kubeflow: the pipeline in a backend of Kubeflow Pipelines."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from qcnn.experiment import ExperimentConfig
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact, metrics_of, models_of, only_model
from qcnn.targets.base import JobStatus, PartStatus, Submitted, setting
from qcnn.targets.compiled_pipeline import compiled_now, main_arguments, main_pipeline, read_package, steps_of
from qcnn.targets.kubeflow.client import Backend, connect, explained
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import (
    ENDED,
    SUCCEEDED,
    creation_time,
    find_experiment,
    find_run,
    namespace_of,
    pages,
    states,
)
from qcnn.targets.kubeflow.submission import EXPERIMENT, Submission, create, request
from qcnn.targets.kubeflow.termination import end_run
from qcnn.targets.library_output import quiet

if TYPE_CHECKING:
    import kfp_server_api

# Labels and names of the pods in which a run's steps work (Argo and Kubeflow's driver, seen with 2.17).
_RUN_LABEL, _STEP_CONTAINER, _STEP_MARK = "pipeline/runid", "main", "-impl-"
_NODE_NAME = "workflows.argoproj.io/node-name"
_ATTEMPT = re.compile(r"\(\d+\)$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection(Backend):
    """Where the backend is, and its metadata store."""

    metadata_host: str | None = setting("Where the metadata store is; without it at the web interface.", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Connection):
    """How a pipeline is run there."""

    experiment: str = setting("Experiment of the backend that the run belongs to.", EXPERIMENT)
    run_name: str | None = setting("Name of the run; without it the pipeline and the time.", None)
    pipeline_root: str | None = setting("Where artifacts go, such as gs://BUCKET/FOLDER.", None)
    service_account: str | None = setting("Kubernetes account that the steps run as.", None)
    caching: bool | None = setting("Caching of all steps; without it as compiled.", None)
    image: str | None = setting("Image of every step.", None)
    pod: Mapping[str, Any] = setting("Settings of the training's pods, as a file for --pod has them.", {})

    @property
    def submission(self) -> Submission:
        """How the run is created, with a name."""
        name = self.run_name or f"qcnn-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S}"
        return Submission(self.experiment, name, self.pipeline_root, self.service_account, self.caching)


class KubeflowTarget:
    """The pipeline in a backend of Kubeflow Pipelines."""

    name: ClassVar[str] = "kubeflow"
    extra: ClassVar[str] = "kubeflow"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings

    def requests(self, experiment: ExperimentConfig, settings: Settings) -> Sequence[Mapping[str, Any]]:
        """Return the request that creates the run, in the words of the API.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        submission, arguments = settings.submission, main_arguments(experiment)
        with self._compiled(settings) as package:
            documents = read_package(package, self.name)
        return [request(documents, arguments, submission.run_name or "", settings, submission)]

    def submit(self, experiment: ExperimentConfig, settings: Settings) -> Submitted:
        """Compile the pipeline and run it; each time it is another run.

        Raises:
            BackendError: the backend refuses, or does not answer.
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        arguments = main_arguments(experiment)
        with self._compiled(settings) as package:
            run = create(connect(settings), package, arguments, settings, settings.submission)
        return Submitted(run, "created", page=settings.page(f"runs/details/{run}"))

    def list_jobs(self, connection: Connection) -> Sequence[JobStatus]:
        """Return the runs of the experiment qcnn of the backend but for archived ones, the newest last."""
        client = connect(connection)
        owner = find_experiment(client, connection, EXPERIMENT)
        with explained(connection.address):
            found = list(pages(client.list_runs, "runs", experiment_id=owner.experiment_id))
        return [_status(run) for run in sorted(found, key=creation_time) if run.storage_state != "ARCHIVED"]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a run, by its id or name, with the states of its steps.

        Raises:
            BackendError: there is none, or there are several; or the backend refuses, or does not answer.
        """
        return _status(find_run(connect(connection), connection, job), with_steps=True)

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield what the steps have printed, read from their pods: KUBECONFIG must give access to the cluster.

        Lines of the workers stand among those of the step that trains. A pod's lines are gone with it.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
        """
        # The client of Kubernetes takes longer to load than everything else here.
        from qcnn.jobs.kubernetes.api import PODS
        from qcnn.jobs.kubernetes.job_watcher import LogCursor
        from qcnn.targets.tfjob.client import cluster

        client = connect(connection)
        run = find_run(client, connection, job)
        cursors: dict[str, LogCursor] = {}
        with cluster(namespace_of(client, connection, run.experiment_id)) as api:
            while True:
                has_ended = find_run(client, connection, run.run_id).state in ENDED
                for pod in sorted(api.find(PODS, labelSelector=f"{_RUN_LABEL}={run.run_id}"), key=_started):
                    name = pod["metadata"]["name"]
                    if _STEP_MARK not in name or pod["status"].get("phase") == "Pending":
                        continue
                    cursor = cursors.setdefault(name, LogCursor(name, _STEP_CONTAINER))
                    yield from (f"[{_step(pod)}] {line}" for _, line in cursor.new(api, follow=False))
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a run; one that has not ended is terminated first, with its TFJobs.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
        """
        client = connect(connection)
        run = find_run(client, connection, job)
        if run.state not in ENDED:
            end_run(client, connection, run, namespace_of(client, connection, run.experiment_id), lambda line: None)
        with explained(connection.address), quiet():
            client._run_api.run_service_delete_run(run_id=run.run_id)

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the metrics of the evaluation, which the backend keeps with six decimals.

        Raises:
            BackendError: there is no such run; or no metadata store answers.
        """
        return metrics_of(self._artifacts(job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a run has exported.

        Raises:
            ArtifactError: it has exported none, or several.
            BackendError: there is no such run; or no metadata store answers.
        """
        return only_model(models_of(self._artifacts(job, connection)), job)

    def _artifacts(self, job: str, connection: Connection) -> list[Artifact]:
        client = connect(connection)
        run = find_run(client, connection, job)
        return MetadataStore(client, connection, connection.metadata_host).artifacts(run.run_id)

    def _compiled(self, settings: Settings) -> contextlib.AbstractContextManager[Path]:
        return compiled_now(main_pipeline(self.name), settings.image, settings.pod)


def _status(run: kfp_server_api.V2beta1Run, *, with_steps: bool = False) -> JobStatus:
    now = datetime.datetime.now(datetime.timezone.utc)
    # The backend has steps of its own, whose names are no task's of the pipeline.
    steps = steps_of(_specification(run)) if with_steps else ()
    has_ended = run.state in ENDED
    error = run.error.message if run.error else ""
    return JobStatus(
        job=run.run_id,
        name=run.display_name,
        state=str(run.state or "PENDING").lower(),
        has_ended=has_ended,
        has_succeeded=run.state in SUCCEEDED,
        age=(now - creation_time(run)).total_seconds() if run.created_at else None,
        duration=(run.finished_at - run.created_at).total_seconds()
        if has_ended and run.finished_at and run.created_at
        else None,
        message=error or "",
        parts=[PartStatus(name, state.lower()) for name, state in states(run, steps).items()] if with_steps else (),
    )


def _specification(run: kfp_server_api.V2beta1Run) -> Mapping[str, Any]:
    """Return the compiled pipeline of a run, which stands beside a platform's own where it has one."""
    found: Mapping[str, Any] = run.pipeline_spec or {"root": {}, "components": {}}
    inner: Mapping[str, Any] = found.get("pipeline_spec", found)
    return inner


def _started(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod["status"].get("startTime", "")), str(pod["metadata"]["name"])


def _step(pod: Mapping[str, Any]) -> str:
    """Return the name of the step that a pod works on: its node is RUN(0).root(0).STEP(0).executor(0) or so."""
    node = str(pod["metadata"].get("annotations", {}).get(_NODE_NAME, ""))
    parts = [_ATTEMPT.sub("", part) for part in node.split(".")[1:]]
    named = [part for part in parts if not part.startswith(("root", "executor", "iteration"))]
    return named[-1] if named else str(pod["metadata"]["name"])
