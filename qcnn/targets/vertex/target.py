"""The target vertex: the pipeline on Vertex AI."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from typing_extensions import override

from qcnn.errors import ConfigError, service_message
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.vertex import location
from qcnn.jobs.vertex.location import run_page
from qcnn.jobs.vertex.machines import DEFAULT, RULES
from qcnn.studies.trials import PARALLELISM, StudyPlan, search_from_mapping, shared_experiment
from qcnn.targets import following
from qcnn.targets.artifacts import only_model, run_metrics, run_models
from qcnn.targets.base import (
    Deletable,
    JobStatus,
    PartStatus,
    Prepared,
    ReportLine,
    RunsStudies,
    Selection,
    Submits,
    Submitted,
    Terminates,
)
from qcnn.targets.bound import BoundJobs
from qcnn.targets.compiled_pipeline import (
    Compile,
    PipelineInputs,
    RegistrationFields,
    compile_main,
    compiled_package,
    main_inputs,
    read_package,
    study_inputs,
    study_pipeline,
    tuning_pipeline,
)
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.settings import setting
from qcnn.targets.vertex import jobs, runs
from qcnn.targets.vertex.client import Connection, id_of, seconds_of, status_of
from qcnn.targets.vertex.experiments import VertexExperiments
from qcnn.targets.vertex.runs import (
    ENDED,
    EXPERIMENT_LABEL,
    PATIENCE,
    add_to_experiment,
    artifacts_of,
    check_succeeded,
    create,
    find_run,
    get_run,
    jobs_of,
    list_runs,
    state_of,
    step_parts,
    terminate_run,
)
from qcnn.targets.vertex.schedules import VertexSchedules
from qcnn.targets.vertex.serving import VertexServing
from qcnn.targets.vertex.submission import RunSettings, prepared, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RegistrationFields, RunSettings):
    """Settings of a run of the main pipeline."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudySettings(RunSettings):
    """Settings of a study run."""

    parallelism: int = setting("Maximum number of parallel trials.", PARALLELISM, minimum=1)
    tuner: str | None = setting(
        "Vertex AI tuner that selects the trials.",
        None,
        shown="no tuner, all trials of the search",
        choices=("vizier",),
    )
    early_stopping: str = setting("Early-stopping rule for --tuner.", DEFAULT, choices=tuple(RULES))


class VertexTarget(
    VertexSchedules,
    VertexExperiments,
    VertexServing,
    BoundJobs[Connection],
    Submits[Settings],
    RunsStudies[StudySettings],
    Terminates,
):
    """The target for Vertex AI pipeline runs."""

    name: ClassVar[str] = "vertex"
    job_kind: ClassVar[str] = "run"
    submit_settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = "Each submission creates a new pipeline run. The experiment's fields are its parameters."
    study_settings: ClassVar[type[StudySettings]] = StudySettings
    selections: ClassVar[Sequence[str]] = ("experiment", "everything")
    has_experiments: ClassVar[bool] = True
    patience: ClassVar[float] = PATIENCE

    @override
    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Compile the pipeline, and return a run of it with an experiment. Each submission creates a new run."""
        compile_now = compile_main(type(self), settings.registration(settings.package))
        return self._prepared(compile_now, main_inputs(experiment), "qcnn", settings)

    @override
    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        """Compile the study pipeline, and return a run of it.

        The trials are those of the study, or are selected by a Vertex AI tuner.

        Raises:
            ConfigError: If the target cannot run the trials, a setting is invalid, or the tuner does not support the
                search.
        """
        if settings.tuner:
            shared_experiment(study.shared, search_from_mapping(study.search))
        inputs = study_inputs(study.arguments, study.trials)
        if settings.tuner:
            compile_now = tuning_pipeline(type(self), settings.parallelism, settings.early_stopping)
            return self._prepared(compile_now, inputs, "qcnn-tuning", settings)
        compile_now = study_pipeline(type(self), settings.parallelism)
        return self._prepared(compile_now, inputs, "qcnn-study", settings)

    def _prepared(self, compile_now: Compile, inputs: PipelineInputs, name: str, settings: RunSettings) -> Prepared:
        with compiled_package(settings, compile_now) as package:
            documents = read_package(package, type(self))
        request = run_request(documents, inputs.arguments, name, settings)

        def send() -> Submitted:
            run = create(self.vertex, request)
            if reason := add_to_experiment(self.vertex, settings.experiment, id_of(run)):
                logger.warning("run not added to experiment %s: %s", settings.experiment, reason)
            return Submitted(id_of(run), page=run_page(settings.place, id_of(run)))

        return prepared(request, documents, inputs, settings, send)

    @override
    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        return [_status(run) for run in list_runs(self.vertex, experiment)]

    @override
    def get_job(self, job: str) -> JobStatus:
        """Return a run with its steps and training jobs, by its ID or name."""
        return self._full_status(find_run(self.vertex, job))

    def _full_status(self, run: PipelineJob) -> JobStatus:
        training_jobs = [
            PartStatus(
                each.display_name,
                location.state_of(each).lower(),
                service_message(each.error.message),
                each.name,
                duration=seconds_of(each),
            )
            for each in jobs.list_jobs(self.vertex, id_of(run))
        ]
        page = run_page(self.connection.place, id_of(run))
        return dataclasses.replace(_status(run), parts=[*step_parts(run), *training_jobs], page=page)

    @override
    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        identity = id_of(find_run(self.vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            run = get_run(self.vertex, identity)
            return jobs_of(self.vertex, run), state_of(run) in ENDED

        yield from jobs.lines(jobs.LogReader(self.vertex), look, follow=follow)

    @override
    def wait(self, job: str, report: ReportLine, timeout: float | None = None) -> JobStatus:
        ended = runs.follow(self.vertex, id_of(find_run(self.vertex, job)), report, timeout)
        following.check_ended(_status(ended), timeout)
        check_succeeded(ended)
        return self._full_status(ended)

    @override
    def check_succeeded(self, job: str) -> None:
        check_succeeded(find_run(self.vertex, job))

    @override
    def delete(self, job: str) -> None:
        """Delete a run and its training jobs. An active run is terminated first."""
        run = find_run(self.vertex, job)
        if state_of(run) not in ENDED and (reason := terminate_run(self.vertex, run, lambda line: None)):
            raise BackendError(reason)
        jobs.delete(self.vertex, jobs.with_searches(self.vertex, id_of(run)))
        self.vertex.delete("PipelineService.delete_pipeline_job", run.name)

    @override
    def metrics(self, job: str) -> Mapping[str, float]:
        return run_metrics(artifacts_of(find_run(self.vertex, job)))

    @override
    def model(self, job: str) -> str:
        return only_model(run_models(artifacts_of(find_run(self.vertex, job))), job)

    @override
    def find(self, selection: Selection) -> Sequence[Deletable]:
        """Return runs that have ended, with their training jobs."""
        if selection.names:
            chosen = [find_run(self.vertex, name) for name in selection.names]
        else:
            chosen = list(list_runs(self.vertex, selection.experiment))
        if alive := [id_of(run) for run in chosen if state_of(run) not in ENDED]:
            raise ConfigError(f"delete: the run must have ended; use qcnn terminate. Given: {', '.join(alive)}")
        found = [
            Deletable("run", id_of(run), run.display_name, id_of(run), state_of(run).lower(), run) for run in chosen
        ]
        for run in chosen:
            found += jobs.as_deletables(jobs.with_searches(self.vertex, id_of(run)))
        return found

    @override
    def delete_found(self, found: Sequence[Deletable]) -> None:
        jobs.delete(self.vertex, jobs.of_deletables(found))
        for each in found:
            if each.kind == "run":
                self.vertex.delete("PipelineService.delete_pipeline_job", cast("PipelineJob", each.object).name)

    @override
    def terminate(self, run: str, report: ReportLine, seconds: float) -> None:
        """Cancel a run and its custom jobs, and wait for it to stop."""
        if reason := terminate_run(self.vertex, find_run(self.vertex, run), report, seconds):
            raise StepError(reason)

    @override
    def would_terminate(self, run: str) -> str:
        found = find_run(self.vertex, run)
        active_jobs = "".join(f", and {job.display_name}" for job in jobs.with_searches(self.vertex, id_of(found)))
        return f"run {id_of(found)}, {state_of(found).lower()}{active_jobs} would be terminated"


def _status(run: PipelineJob) -> JobStatus:
    status = status_of(run, state_of(run), has_ended=state_of(run) in ENDED)
    return dataclasses.replace(status, experiment=run.labels.get(EXPERIMENT_LABEL, ""))
