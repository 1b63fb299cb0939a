"""Batch prediction jobs of JobService, which predict the lines of files in a bucket."""

import csv
import datetime
import json
import threading
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import empty_pb2

from tests.vertex.fake_service import job_run
from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, check_display_name, precondition, require
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.pipelines import mount
from tests.vertex.fake_service.serving.endpoints import Endpoints
from tests.vertex.fake_service.serving.models import Models
from tests.vertex.fake_service.state import State, copied

_FILTERED = ("display_name", "model_display_name", "state", "create_time", "labels")
# google.rpc.Code
_INVALID_ARGUMENT = 3


class BatchJobs:
    """Handlers that create, list, run and delete batch prediction jobs."""

    def __init__(
        self, state: State, models: Models, endpoints: Endpoints, operations: Operations, folder: Path
    ) -> None:
        self._state, self._models, self._endpoints, self._operations = state, models, endpoints, operations
        self._folder = folder
        self._threads: list[threading.Thread] = []

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        kind = v1.BatchPredictionJob
        return {
            "JobService/CreateBatchPredictionJob": self._create,
            "JobService/GetBatchPredictionJob": lambda request: self._state.copy(kind, request.name),
            "JobService/ListBatchPredictionJobs": self._list,
            "JobService/CancelBatchPredictionJob": lambda request: empty_pb2.Empty(),
            "JobService/DeleteBatchPredictionJob": self._delete,
        }

    def close(self) -> None:
        """Wait for all jobs."""
        for thread in self._threads:
            thread.join()

    def _create(self, request: v1.CreateBatchPredictionJobRequest) -> v1.BatchPredictionJob:
        job = copied(request.batch_prediction_job)
        place = self._state.parent(request.parent)
        check_display_name(job.display_name)
        model = self._models.find(job.model)
        require("input_config.gcs_source.uris", job.input_config.gcs_source.uris)
        require("output_config.gcs_destination", job.output_config.gcs_destination.output_uri_prefix)
        if job.input_config.instances_format not in ("jsonl", "csv"):
            given = job.input_config.instances_format
            raise StatusError(400, f"instances_format must be jsonl or csv here. Given: {given}")
        if job.output_config.predictions_format != "jsonl":
            given = job.output_config.predictions_format
            raise StatusError(400, f"predictions_format must be jsonl here. Given: {given}")
        require("dedicated_resources.machine_spec", job.dedicated_resources.machine_spec.machine_type)
        job.name = f"{place}/batchPredictionJobs/{self._state.new_id()}"
        job.model_version_id = model.version_id
        job.create_time = job.update_time = datetime.datetime.now(datetime.UTC)
        job.state = job_run.PENDING
        self._state.add(job.name, job)
        kept = copied(job)
        thread = threading.Thread(target=self._run, args=(job, copied(model)), daemon=True)
        self._threads.append(thread)
        thread.start()
        return kept

    def _run(self, job: v1.BatchPredictionJob, model: v1.Model) -> None:
        self._state.move(job, job_run.RUNNING)
        host, folder = self._endpoints.storage_host(), self._folder / job.name.rpartition("/")[2]
        uris = list(job.input_config.gcs_source.uris)
        mount.fill(host, folder, uris)
        known = mount.marks(folder)
        try:
            instances = [each for uri in uris for each in _instances(folder / uri.removeprefix("gs://"))]
            predictions = self._endpoints.predictor(model).predict(instances)
        except (StatusError, ValueError, OSError) as error:
            self._state.move(job, job_run.FAILED, _INVALID_ARGUMENT, str(error))
            return
        created = job.create_time.strftime("%Y_%m_%dT%H_%M_%S_%fZ")
        prefix = job.output_config.gcs_destination.output_uri_prefix.rstrip("/")
        where = f"{prefix}/prediction-{model.display_name}-{created}"
        output = folder / where.removeprefix("gs://")
        output.mkdir(parents=True)
        lines = [
            json.dumps({"instance": instance, "prediction": prediction})
            for instance, prediction in zip(instances, predictions, strict=True)
        ]
        (output / "prediction.results-00000-of-00001").write_text("".join(f"{line}\n" for line in lines))
        (output / "prediction.errors_stats-00000-of-00001").write_text("")
        mount.copy_back(host, folder, known)
        with self._state.changed:
            job.output_info.gcs_output_directory = where
            job.completion_stats.successful_count = len(lines)
        self._state.move(job, job_run.SUCCEEDED)

    def _list(self, request: v1.ListBatchPredictionJobsRequest) -> v1.ListBatchPredictionJobsResponse:
        page, token = self._state.page(v1.BatchPredictionJob, request, _FILTERED)
        return v1.ListBatchPredictionJobsResponse(batch_prediction_jobs=page, next_page_token=token)

    def _delete(self, request: v1.DeleteBatchPredictionJobRequest) -> Any:
        with self._state.changed:
            job = self._state.get(v1.BatchPredictionJob, request.name)
            if job.state not in job_run.ENDED:
                raise precondition(f"The BatchPredictionJob is not in a final state. Name: {job.name}")
            return self._operations.run(job.name, lambda: self._state.remove(job.name), v1.DeleteOperationMetadata())


def _instances(file: Path) -> list[Any]:
    """Return the instances of a file. A row of a CSV file is an array, as on the service."""
    if file.suffix != ".csv":
        return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    with file.open() as rows:
        return [[_number(cell) for cell in row] for row in list(csv.reader(rows))[1:]]


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
