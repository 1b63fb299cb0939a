"""Deployment of models to Vertex AI endpoints, and online and batch predictions."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from qcnn.data.labels import class_name
from qcnn.data.samples import LABEL, PREDICTION
from qcnn.errors import ConfigError
from qcnn.jobs.references import check_image
from qcnn.jobs.vertex.location import endpoint_page
from qcnn.storage.store import parse_bucket_uri
from qcnn.tables import STANDARD_STREAM, check_extension
from qcnn.targets.artifacts import only_model, run_models
from qcnn.targets.base import Deployed, Deploys, ReportLine, Request, SendsPredictions
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.settings import setting
from qcnn.targets.vertex import endpoints, model_registry
from qcnn.targets.vertex.bound import VertexBound
from qcnn.targets.vertex.client import Connection, VertexClient
from qcnn.targets.vertex.endpoints import MACHINE, ReplicaSettings
from qcnn.targets.vertex.runs import artifacts_of, find_run

if TYPE_CHECKING:
    from qcnn.results.batch_prediction import Progress
    from qcnn.targets.vertex.batch_prediction import EndpointSamples

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_SHARE = 10
# Numbers per request. A number with its name has less than 50 bytes, and a request at most 1.5 MB
# (cloud.google.com/vertex-ai/docs/predictions/get-online-predictions).
_CHUNK = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeploySettings(Connection):
    """Settings of a deployment: the model, the endpoint and its machines.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    model: str | None = setting("Folder of an exported model.", None, metavar="MODEL", is_argument=True)
    endpoint: str = setting("Endpoint of the version. Created if it does not exist.", metavar="NAME")
    model_name: str = setting("Model in Vertex AI Model Registry to add the version to.", "qcnn", metavar="NAME")
    traffic: int = setting(
        "Traffic percentage for the new version. A single version gets 100.", _SHARE, minimum=1, maximum=100
    )
    run: str | None = setting("Run whose exported model is deployed, instead of MODEL.", None, metavar="RUN")
    rollback: bool = setting("Undeploy the newest version and give its traffic to the others.", False)
    staging: str | None = setting("gs://BUCKET/FOLDER to copy a local MODEL to.", None, metavar="URI")
    serving_image: str | None = setting("Serving image.", None, shown="Google's newest", metavar="IMAGE")
    machine_type: str = setting("Machine type of the replicas.", MACHINE)
    min_replicas: int = setting("Minimum number of replicas.", 1, minimum=1)
    max_replicas: int = setting("Maximum number of replicas.", 1, minimum=1)
    service_account: str | None = setting("Google service account of the version.", None, metavar="NAME")

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, name in (("endpoint", self.endpoint), ("model-name", self.model_name)):
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f"{option}: must be 1 to 63 lowercase letters, digits and hyphens, a letter first. Given: {name}"
                )
        given = {"MODEL": self.model, "--run": self.run, "--rollback": self.rollback}
        if len(sources := [name for name, value in given.items() if value]) != 1:
            raise ConfigError(f"deploy: must have one of {', '.join(given)}. Given: {' '.join(sources) or 'none'}")
        if self.min_replicas > self.max_replicas:
            raise ConfigError(
                f"min_replicas: must be at most max_replicas, {self.max_replicas}. Given: {self.min_replicas}"
            )
        if self.serving_image is not None:
            check_image("serving_image", self.serving_image)

    @property
    def machines(self) -> ReplicaSettings:
        """Machine type and replicas of the version."""
        return ReplicaSettings(self.machine_type, self.min_replicas, self.max_replicas)

    @property
    def image(self) -> str:
        """The serving image of the version."""
        return self.serving_image or model_registry.image_in(self.location)


DEPLOY_HELP = """
Deploy MODEL as a new version to an endpoint of Vertex AI.

MODEL is an exported model folder. Machines are billed until `qcnn undeploy`. To change the traffic of a version, deploy
it again with another --traffic.
"""
PREDICT_HELP = """
Predict with an endpoint, or as a batch prediction job.

With labels, the mean squared error or the accuracy is printed. FILE can be a URI, such as gs://BUCKET/FILE.csv.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings(Connection):
    """Settings of a prediction: the samples, the endpoint or model, and the output.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    data: str = setting(
        "CSV, Parquet, npz or JSONL file with the columns of the model's inputs and optional labels.", metavar="FILE"
    )
    endpoint: str | None = setting("Endpoint for online predictions.", None, metavar="NAME")
    model: str | None = setting("Model for a batch prediction job.", None, metavar="NAME[@VERSION]")
    output: str | None = setting(
        "File for the predictions, in one of these formats. With --model: gs://BUCKET/FOLDER.",
        None,
        shown="CSV on stdout",
        metavar="FILE",
    )
    machine_type: str = setting("Machine type of a batch prediction job.", MACHINE)
    max_replicas: int = setting("Maximum number of replicas of a batch prediction job.", 1, minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.endpoint) == bool(self.model):
            given = "both" if self.model else "none"
            raise ConfigError(f"predict: must have either --endpoint or --model. Given: {given}")
        target = parse_bucket_uri(self.output or "")
        if self.model and (target is None or target.scheme != "gs"):
            raise ConfigError(f"output: must be gs://BUCKET/FOLDER with --model. Given: {self.output}")
        if self.output is not None and self.output != STANDARD_STREAM and not self.model:
            check_extension("output", self.output)

    @property
    def machines(self) -> ReplicaSettings:
        """Machine type and replicas of a batch prediction job."""
        return ReplicaSettings(self.machine_type, 1, self.max_replicas)


class VertexServing(VertexBound, SendsPredictions[PredictSettings], Deploys[DeploySettings]):
    """Endpoints and predictions of the target vertex."""

    predict_settings: ClassVar[type[PredictSettings]] = PredictSettings
    predict_help: ClassVar[str] = PREDICT_HELP
    deploy_settings: ClassVar[type[DeploySettings]] = DeploySettings
    deploy_help: ClassVar[str] = DEPLOY_HELP

    @override
    def deploy_requests(self, settings: DeploySettings) -> Sequence[Request]:
        """Return the requests that deploy a first version to a new endpoint, validated by the API's types.

        Raises:
            ConfigError: If a rollback is requested, which cannot be shown.
        """
        if settings.rollback:
            raise ConfigError("dry_run: must be without --rollback. Given: --rollback")
        from qcnn.jobs.vertex.client import aiplatform

        vertex = self.vertex
        found = _find_exported(vertex, settings)
        first = model_registry.model_name(vertex, settings.model_name)
        shares = {endpoints.deployed_id(f"{first}@1"): 100}
        at = endpoints.endpoint_name(vertex, settings.endpoint)
        account = settings.service_account
        requests = (
            aiplatform.UploadModelRequest(
                model_registry.upload_request(vertex, settings.model_name, found, settings.image, is_first=True)
            ),
            aiplatform.CreateEndpointRequest(endpoints.create_request(vertex, settings.endpoint)),
            aiplatform.DeployModelRequest(endpoints.deploy_request(at, first, "1", settings.machines, account, shares)),
        )
        return [
            {
                type(each).__name__: type(each).to_dict(each, always_print_fields_with_no_presence=False)
                for each in requests
            }
        ]

    @override
    def deploy(
        self, settings: DeploySettings, report: ReportLine, warn: ReportLine
    ) -> tuple[Sequence[Deployed], Mapping[str, str]]:
        """Deploy a model as a new version to an endpoint, or undeploy the newest version.

        If the version is already deployed, only its traffic changes.
        """
        vertex = self.vertex
        page = {"endpoint page": endpoint_page(vertex.place, settings.endpoint)}
        if settings.rollback:
            report(_roll_back(vertex, settings.endpoint))
            return self.deployed(settings.endpoint), page
        if not settings.serving_image and (reason := model_registry.withdrawal_warning(datetime.date.today())):
            warn(f"warning: {reason}")
        found = _find_exported(vertex, settings)
        model_registry.stage(found)
        version = model_registry.version_of(vertex, settings.model_name, found, settings.image, report)
        at = endpoints.endpoint_of(vertex, settings.endpoint, report)
        identity = endpoints.deployed_id(f"{version.name}@{version.version_id}")
        shares = endpoints.with_traffic(dict(at.traffic_split), identity, settings.traffic)
        if any(each.id == identity for each in at.deployed_models):
            endpoints.set_traffic(vertex, at.name, shares)
        else:
            report("deploying, which takes minutes")
            account = settings.service_account
            endpoints.deploy(
                vertex,
                endpoints.deploy_request(at.name, version.name, version.version_id, settings.machines, account, shares),
            )
        return self.deployed(settings.endpoint), page

    @override
    def deployed(self, endpoint: str) -> Sequence[Deployed]:
        """Return the versions deployed to an endpoint, oldest first."""
        return endpoints.list_versions(endpoints.get_endpoint(self.vertex, endpoint))

    @override
    def undeploy(self, endpoint: str) -> None:
        found = endpoints.get_endpoint(self.vertex, endpoint)
        if found.traffic_split:
            endpoints.set_traffic(self.vertex, found.name, {})
        for each in found.deployed_models:
            endpoints.undeploy(self.vertex, found.name, each.id)
        self.vertex.delete("EndpointService.delete_endpoint", found.name)

    @override
    def predict_requests(self, settings: PredictSettings) -> Sequence[Request]:
        """Return the request for a batch prediction job.

        Raises:
            ConfigError: If an endpoint is given, which has no single request.
        """
        if not settings.model:
            raise ConfigError(f"dry_run: must be with --model. Given: --endpoint {settings.endpoint}")
        from qcnn.targets.vertex import batch_prediction

        batch_prediction.read_samples(settings.data)
        return [batch_prediction.job_request(self.vertex, settings.model, str(settings.output), settings.machines)[1]]

    @override
    def predict(
        self, settings: PredictSettings, report: ReportLine, warn: ReportLine, progress: Progress
    ) -> Mapping[str, float | str]:
        """Predict the rows of a file with an endpoint, or as a batch prediction job."""
        from qcnn.targets.vertex import batch_prediction

        samples = batch_prediction.read_samples(settings.data)
        if settings.model:
            return _predict_batch(self.vertex, settings.model, samples, settings, report)
        at = endpoints.get_endpoint(self.vertex, settings.endpoint or "").name
        found = list(_predict(self.vertex, at, samples))
        _write(samples, found, settings.output, report)
        if samples.label is None:
            return {"rows": len(samples)}
        metric, value = _score(samples.label.tolist(), found)
        warn(f"{metric} {value:.6f}")
        return {"rows": len(samples), metric: value}


def _score(labels: Sequence[float | str], found: Sequence[float | str]) -> tuple[str, float]:
    """Return the accuracy of names of classes, or the mean squared error of numbers, with its name.

    Raises:
        ConfigError: If the labels are text and the predictions numbers.
    """
    if isinstance(found[0], str):
        right = [class_name(label) == value for label, value in zip(labels, found, strict=True)]
        return "accuracy", sum(right) / len(right)
    if isinstance(labels[0], str):
        raise ConfigError(f"data: labels must be numbers, as the predictions of the model. Given: {labels[0]}")
    errors = [(float(value) - float(label)) ** 2 for value, label in zip(found, labels, strict=True)]
    return "mse", sum(errors) / len(errors)


def _find_exported(vertex: VertexClient, settings: DeploySettings) -> model_registry.ExportedModel:
    address = settings.model
    if not address:
        run = settings.run or ""
        address = only_model(run_models(artifacts_of(find_run(vertex, run))), run)
    return model_registry.find_exported(address, settings.staging)


def _roll_back(vertex: VertexClient, endpoint: str) -> str:
    """Undeploy the newest version and return a status line."""
    at = endpoints.get_endpoint(vertex, endpoint)
    bad, good = endpoints.rollback_versions(at)
    endpoints.undeploy(vertex, at.name, bad.id, endpoints.without_version(dict(at.traffic_split), bad.id, good.id))
    version = model_registry.get_version(vertex, f"{good.model}@{good.model_version_id}")
    model_registry.make_default(vertex, version)
    return f"{bad.display_name} is undeployed; {good.display_name} is the default version again"


def _predict(vertex: VertexClient, endpoint: str, samples: EndpointSamples) -> Iterator[float | str]:
    """Yield the prediction of each sample: a number, or the name of the most probable class."""
    from google.protobuf import json_format, struct_pb2

    from qcnn.jobs.vertex.client import aiplatform

    size = max(1, _CHUNK // len(samples.columns))
    for start in range(0, len(samples), size):
        chunk = samples.instances(start, start + size)
        instances = [json_format.ParseDict(each, struct_pb2.Value()) for each in chunk]
        request = aiplatform.PredictRequest(endpoint=endpoint)
        aiplatform.PredictRequest.pb(request).instances.extend(instances)
        answer = vertex.call("PredictionService.predict", request)
        predictions = list(answer.predictions)
        if len(predictions) != len(instances):
            raise BackendError(
                f"endpoint: must predict {len(instances)} samples. Given: {len(predictions)} predictions"
            )
        for each in predictions:
            yield float(each) if isinstance(each, int | float) else str(each[PREDICTION])


def _predict_batch(
    vertex: VertexClient, model: str, samples: EndpointSamples, settings: PredictSettings, report: ReportLine
) -> Mapping[str, float | str]:
    from qcnn.targets.vertex import batch_prediction

    output = str(parse_bucket_uri(settings.output or ""))
    job = batch_prediction.begin(vertex, model, samples, output, settings.machines)
    report(f"{job.name}: {len(samples)} samples")
    ended = batch_prediction.follow(vertex, job, report)
    where = str(ended.output_info.gcs_output_directory)
    report(f"predictions: {where}")
    failed = ended.completion_stats.failed_count
    if failed:
        raise StepError(f"batch prediction: some samples failed. Given: {failed} of {len(samples)}")
    return {"rows": len(samples), "predictions": where}


def _write(
    samples: EndpointSamples, predictions: Sequence[float | str], output: str | None, report: ReportLine
) -> None:
    import numpy as np

    from qcnn.tables.table import new_table

    columns = dict(samples.columns)
    if "qubit" in columns:
        columns["qubit"] = columns["qubit"].astype(np.int64)
    columns |= {} if samples.label is None else {LABEL: samples.label}
    columns[PREDICTION] = np.array(predictions, object if isinstance(predictions[0], str) else np.float64)
    if output is not None and output != STANDARD_STREAM:
        with new_table(output) as write:
            write(columns)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    report(text.getvalue().removesuffix("\n"))
