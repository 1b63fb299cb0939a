"""Hyperparameter tuning jobs of JobService. Each trial is a custom job with its parameter values as flags."""

import concurrent.futures
import datetime
import json
import threading
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import empty_pb2

from tests.vertex.fake_service import job_run
from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.custom_jobs import CustomJobs
from tests.vertex.fake_service.errors import check_display_name, check_labels, precondition, require
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.state import State, copied
from tests.vertex.fake_service.training.search import check_study, draw
from tests.vertex.fake_service.training.validation import check_job_spec

_FILTERED = ("display_name", "state", "create_time", "labels")
_STATES = v1.Trial.State
_BEST = v1.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT
_MINIMIZE = v1.StudySpec.MetricSpec.GoalType.MINIMIZE
# google.rpc.Code
_CANCELLED, _INTERNAL = 1, 13


class TuningJobs:
    """Handlers that create, list, run, cancel and delete tuning jobs. Tests stop trials early."""

    def __init__(self, state: State, jobs: CustomJobs, operations: Operations, folder: Path) -> None:
        self._state, self._jobs, self._operations, self._folder = state, jobs, operations, folder
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        # Custom jobs of trials that were stopped early.
        self._stopped: set[str] = set()

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        kind = v1.HyperparameterTuningJob
        return {
            "JobService/CreateHyperparameterTuningJob": self._create,
            "JobService/GetHyperparameterTuningJob": lambda request: self._state.copy(kind, request.name),
            "JobService/ListHyperparameterTuningJobs": self._list,
            "JobService/CancelHyperparameterTuningJob": self._cancel,
            "JobService/DeleteHyperparameterTuningJob": self._delete,
        }

    def stop(self, job: str, trial: str) -> None:
        """Stop a trial early, as automated early stopping would."""
        with self._state.changed:
            (found,) = (each for each in self._state.get(v1.HyperparameterTuningJob, job).trials if each.id == trial)
            found.state = _state("STOPPING")
            self._stopped.add(found.custom_job)
            self._state.changed.notify_all()
        self._jobs.cancel(found.custom_job)

    def close(self) -> None:
        """Start no further trial, and wait for running trials, whose custom jobs must have been killed."""
        self._is_closed = True
        for thread in self._threads:
            thread.join()

    def _create(self, request: v1.CreateHyperparameterTuningJobRequest) -> v1.HyperparameterTuningJob:
        job = copied(request.hyperparameter_tuning_job)
        place = self._state.parent(request.parent)
        check_display_name(job.display_name)
        check_labels(dict(job.labels))
        check_study(job.study_spec)
        require("max_trial_count", job.max_trial_count > 0)
        require("parallel_trial_count", job.parallel_trial_count > 0)
        check_job_spec(job.trial_job_spec)
        job.name = f"{place}/hyperparameterTuningJobs/{self._state.new_id()}"
        job.create_time = job.update_time = datetime.datetime.now(datetime.UTC)
        job.state = job_run.PENDING
        self._state.add(job.name, job)
        kept = copied(job)
        thread = threading.Thread(target=self._run, args=(job,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return kept

    def _run(self, job: v1.HyperparameterTuningJob) -> None:
        self._state.move(job, job_run.RUNNING)
        with concurrent.futures.ThreadPoolExecutor(job.parallel_trial_count) as pool:
            wanted = range(1, job.max_trial_count + 1)
            failed = sum(not good for good in pool.map(lambda trial: self._try(job, trial), wanted))
        limit = job.max_failed_trial_count or job.max_trial_count
        if job.state == job_run.CANCELLING:
            self._state.move(job, job_run.CANCELLED, _CANCELLED, "CANCELED")
        elif failed >= limit:
            self._state.move(job, job_run.FAILED, _INTERNAL, f"Too many failed Trials: {failed}.")
        else:
            self._state.move(job, job_run.SUCCEEDED)

    def _try(self, job: v1.HyperparameterTuningJob, number: int) -> bool:
        """Run a trial and return whether it succeeded."""
        values = draw(job.study_spec, number)
        file = self._folder / job.name.rpartition("/")[2] / str(number) / "output.metrics"
        # A concurrent cancellation of the tuning job would miss a trial that is created but not yet listed.
        with self._state.changed:
            if job.state != job_run.RUNNING or self._is_closed:
                return True
            file.parent.mkdir(parents=True)
            created = self._jobs.create(
                "/".join(job.name.split("/")[:4]),
                _trial_job(job, number, values),
                str(number),
                added={"CLOUD_ML_HP_METRIC_FILE": str(file)},
            )
            trial = v1.Trial(
                name=f"{job.name}/trials/{number}",
                id=str(number),
                state=_STATES.ACTIVE,
                parameters=[{"parameter_id": name, "value": value} for name, value in values.items()],
                start_time=datetime.datetime.now(datetime.UTC),
                custom_job=created.name,
            )
            self._show(job, trial)
        ended = self._state.until(lambda: self._if_ended(created.name))
        measurements = _measurements(file, job.study_spec)
        trial.measurements = measurements
        trial.end_time = datetime.datetime.now(datetime.UTC)
        if (ended.state == job_run.SUCCEEDED or ended.name in self._stopped) and measurements:
            trial.state, trial.final_measurement = _state("SUCCEEDED"), _chosen(measurements, job.study_spec)
        else:
            trial.state = _state("INFEASIBLE")
            trial.infeasible_reason = ended.error.message or "The trial has reported no metric."
        self._show(job, trial)
        return bool(trial.state == _STATES.SUCCEEDED)

    def _show(self, job: v1.HyperparameterTuningJob, trial: v1.Trial) -> None:
        with self._state.changed:
            others = [each for each in job.trials if each.id != trial.id]
            job.trials = sorted([*others, trial], key=lambda each: int(each.id))
            self._state.changed.notify_all()

    def _if_ended(self, name: str) -> v1.CustomJob | None:
        found = self._state.copy(v1.CustomJob, name)
        return found if found.state in job_run.ENDED else None

    def _list(self, request: v1.ListHyperparameterTuningJobsRequest) -> v1.ListHyperparameterTuningJobsResponse:
        page, token = self._state.page(v1.HyperparameterTuningJob, request, _FILTERED)
        return v1.ListHyperparameterTuningJobsResponse(hyperparameter_tuning_jobs=page, next_page_token=token)

    def _cancel(self, request: v1.CancelHyperparameterTuningJobRequest) -> Any:
        with self._state.changed:
            job = self._state.get(v1.HyperparameterTuningJob, request.name)
            if job.state in job_run.ENDED:
                return empty_pb2.Empty()
            self._state.move(job, job_run.CANCELLING)
            running = [trial.custom_job for trial in job.trials]
        for name in running:
            self._jobs.cancel(name)
        return empty_pb2.Empty()

    def _delete(self, request: v1.DeleteHyperparameterTuningJobRequest) -> Any:
        with self._state.changed:
            job = self._state.get(v1.HyperparameterTuningJob, request.name)
            if job.state not in job_run.ENDED:
                raise precondition(f"The HyperparameterTuningJob is not in a final state. Name: {job.name}")
            return self._operations.run(job.name, lambda: self._state.remove(job.name), v1.DeleteOperationMetadata())


def _trial_job(job: v1.HyperparameterTuningJob, number: int, values: dict[str, Any]) -> v1.CustomJob:
    spec = copied(job.trial_job_spec)
    for pool in spec.worker_pool_specs:
        if "container_spec" in pool:
            pool.container_spec.args.extend(f"--{name}={value}" for name, value in values.items())
    if base := spec.base_output_directory.output_uri_prefix:
        spec.base_output_directory.output_uri_prefix = f"{base.rstrip('/')}/{number}"
    return v1.CustomJob(display_name=f"{job.display_name[:100]}-trial-{number}", labels=job.labels, job_spec=spec)


def _measurements(file: Path, study: v1.StudySpec) -> list[v1.Measurement]:
    """Return the study's metrics that a trial has reported in the format of cloudml-hypertune."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    names = [metric.metric_id for metric in study.metrics]
    return [
        v1.Measurement(
            step_count=int(line.get("global_step", 0)),
            metrics=[{"metric_id": name, "value": float(line[name])} for name in names if name in line],
        )
        for line in lines
        if any(name in line for name in names)
    ]


def _chosen(measurements: list[v1.Measurement], study: v1.StudySpec) -> v1.Measurement:
    if study.measurement_selection_type != _BEST:
        return measurements[-1]
    best = min if study.metrics[0].goal == _MINIMIZE else max
    return best(measurements, key=lambda each: each.metrics[0].value)


def _state(name: str) -> v1.Trial.State:
    return v1.Trial.State(getattr(v1.Trial.State, name))
