"""Models that answer at endpoints of Vertex AI, and predictions of endpoints, or of a model for a whole file."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.data.samples import LABEL, PREDICTION
from qcnn.errors import ConfigError
from qcnn.jobs.references import check_image
from qcnn.jobs.vertex.location import endpoint_page
from qcnn.storage.store import parse_bucket_uri
from qcnn.tables import check_ending
from qcnn.targets.artifacts import only_model, run_models
from qcnn.targets.base import Deployed, Say
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.settings import setting
from qcnn.targets.vertex import endpoints, model_registry
from qcnn.targets.vertex.client import Connection, VertexClient
from qcnn.targets.vertex.endpoints import MACHINE, ReplicaSettings
from qcnn.targets.vertex.runs import artifacts_of, find_run

if TYPE_CHECKING:
    from qcnn.targets.vertex.batch_prediction import EndpointSamples

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_SHARE = 10
# Numbers in a request, which may have 1.5 MB (cloud.google.com/vertex-ai/docs/predictions/get-online-predictions); one
# has less than 50 bytes, its name included.
_CHUNK = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeploySettings(Connection):
    """Which model answers at which endpoint, and on what.

    Raises:
        ConfigError: these do not go together, or one is malformed.
    """

    model: str | None = setting("Folder of a model that was exported.", None, metavar="MODEL", is_argument=True)
    endpoint: str = setting("Endpoint to answer at, made if it is not there.", metavar="NAME")
    model_name: str = setting("Model of which it is a version.", "qcnn", metavar="NAME")
    traffic: int = setting(
        "Percent of the requests that the version gets; the only one gets all.", _SHARE, least=1, most=100
    )
    run: str | None = setting("Instead of MODEL, the one that a run has exported.", None, metavar="RUN")
    rollback: bool = setting("Take the newest version away; those before it get its traffic.", False)
    staging: str | None = setting("gs://BUCKET/FOLDER to which a MODEL of this machine is copied.", None, metavar="URL")
    serving_image: str | None = setting("Image that serves it.", None, shown="Google's newest", metavar="IMAGE")
    machine_type: str = setting("Machine type that answers.", MACHINE)
    min_replicas: int = setting("Minimum number of replicas.", 1, least=1)
    max_replicas: int = setting("Maximum number of replicas.", 1, least=1)
    service_account: str | None = setting("Google service account that the version runs as.", None, metavar="ADDRESS")

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, name in (("endpoint", self.endpoint), ("model-name", self.model_name)):
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f"{option}: must be 1 to 63 small letters, digits and hyphens, a letter first. Given: {name}"
                )
        given = {"MODEL": self.model, "--run": self.run, "--rollback": self.rollback}
        if len(words := [word for word, value in given.items() if value]) != 1:
            raise ConfigError(f"deploy: takes one of {', '.join(given)}. Given: {' '.join(words) or 'none'}")
        if self.min_replicas > self.max_replicas:
            raise ConfigError(
                f"min_replicas: must be at most max_replicas, {self.max_replicas}. Given: {self.min_replicas}"
            )
        if self.serving_image is not None:
            check_image("serving_image", self.serving_image)

    @property
    def machines(self) -> ReplicaSettings:
        """What the version answers on."""
        return ReplicaSettings(self.machine_type, self.min_replicas, self.max_replicas)

    @property
    def image(self) -> str:
        """The image that serves it."""
        return self.serving_image or model_registry.image_in(self.location)


def deploy_requests(vertex: VertexClient, settings: DeploySettings) -> Mapping[str, Any]:
    """Return the requests of a first version at a new endpoint, checked by the types of the API.

    Raises:
        ArtifactError: there is no such model.
        BackendError: there is no such run.
        ConfigError: nothing is sent to take a version away.
    """
    if settings.rollback:
        raise ConfigError("dry_run: only of a version that is deployed. Given: --rollback")
    from qcnn.jobs.vertex.client import aiplatform

    found = _exported(vertex, settings)
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
    return {type(each).__name__: type(each).to_dict(each, including_default_value_fields=False) for each in requests}


def deploy(vertex: VertexClient, settings: DeploySettings, say: Say, warn: Say) -> tuple[Sequence[Deployed], str]:
    """Make a model a version that answers at an endpoint, or take the newest one away.

    Returns what is deployed there, and the endpoint's page. Deployed again with another share, a version gets that.

    Raises:
        ArtifactError: there is no such model.
        BackendError: Vertex AI refuses, or does not answer.
    """
    page = endpoint_page(vertex.place, settings.endpoint)
    if settings.rollback:
        say(_rolled_back(vertex, settings.endpoint))
        return deployed(vertex, settings.endpoint), page
    if not settings.serving_image and (said := model_registry.warning(datetime.date.today())):
        warn(f"warning: {said}")
    found = _exported(vertex, settings)
    model_registry.stage(found)
    version = model_registry.version_of(vertex, settings.model_name, found, settings.image, say)
    at = endpoints.endpoint_of(vertex, settings.endpoint, say)
    identity = endpoints.deployed_id(f"{version.name}@{version.version_id}")
    shares = endpoints.shared(dict(at.traffic_split), identity, settings.traffic)
    if any(each.id == identity for each in at.deployed_models):
        endpoints.set_traffic(vertex, at.name, shares)
    else:
        say("it is deployed, which takes minutes")
        account = settings.service_account
        endpoints.deploy(
            vertex,
            endpoints.deploy_request(at.name, version.name, version.version_id, settings.machines, account, shares),
        )
    return deployed(vertex, settings.endpoint), page


def deployed(vertex: VertexClient, endpoint: str) -> Sequence[Deployed]:
    """Return what is deployed at an endpoint, the oldest first.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    return endpoints.deployed(endpoints.get_endpoint(vertex, endpoint))


def undeploy(vertex: VertexClient, endpoint: str) -> None:
    """Take all versions from an endpoint, and delete it.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    found = endpoints.get_endpoint(vertex, endpoint)
    if found.traffic_split:
        endpoints.set_traffic(vertex, found.name, {})
    for each in found.deployed_models:
        endpoints.undeploy(vertex, found.name, each.id)
    vertex.delete("EndpointService.delete_endpoint", found.name)


def _exported(vertex: VertexClient, settings: DeploySettings) -> model_registry.ExportedModel:
    address = settings.model
    if not address:
        run = settings.run or ""
        address = only_model(run_models(artifacts_of(find_run(vertex, run))), run)
    return model_registry.exported(address, settings.staging)


def _rolled_back(vertex: VertexClient, endpoint: str) -> str:
    """Take the newest version away; return what is to be told of it."""
    at = endpoints.get_endpoint(vertex, endpoint)
    bad, good = endpoints.rollback_versions(at)
    endpoints.undeploy(vertex, at.name, bad.id, endpoints.without(dict(at.traffic_split), bad.id, good.id))
    version = model_registry.get_version(vertex, f"{good.model}@{good.model_version_id}")
    model_registry.make_default(vertex, version)
    return f"{bad.display_name} is taken away; {good.display_name} is the default version again"


PREDICT_HELP = """
Predict samples, and print their mean squared error where they have labels.

FILE may be in a bucket, gs://BUCKET/FILE.csv.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings(Connection):
    """What is predicted, by which endpoint or model, and where it goes.

    Raises:
        ConfigError: these do not go together, or one is malformed.
    """

    data: str = setting(
        "CSV, Parquet, npz or JSONL with the columns that the model takes, and perhaps label.", metavar="FILE"
    )
    endpoint: str | None = setting("Endpoint that is asked.", None, metavar="NAME")
    model: str | None = setting(
        "Model that predicts FILE as a batch, without an endpoint.", None, metavar="NAME[@VERSION]"
    )
    output: str | None = setting(
        "File to write, in one of these formats, or gs://BUCKET/FOLDER for a batch.",
        None,
        shown="CSV on stdout",
        metavar="FILE",
    )
    machine_type: str = setting("Machine type of a batch.", MACHINE)
    max_replicas: int = setting("Maximum number of replicas of a batch.", 1, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.endpoint) == bool(self.model):
            raise ConfigError(f"predict: takes either --endpoint or --model. Given: {'both' if self.model else 'none'}")
        target = parse_bucket_uri(self.output or "")
        if self.model and (target is None or target.scheme != "gs"):
            raise ConfigError(f"output: must be gs://BUCKET/FOLDER for a batch. Given: {self.output}")
        if self.output is not None and not self.model:
            check_ending("output", self.output)

    @property
    def machines(self) -> ReplicaSettings:
        """What a batch is predicted on."""
        return ReplicaSettings(self.machine_type, 1, self.max_replicas)


def predict_requests(vertex: VertexClient, settings: PredictSettings) -> Sequence[Mapping[str, Any]]:
    """Return the job of a batch.

    Raises:
        BackendError: there is no such model.
        ConfigError: an endpoint is asked sample by sample.
    """
    if not settings.model:
        raise ConfigError(f"dry_run: only of a batch, which --model predicts. Given: --endpoint {settings.endpoint}")
    from qcnn.targets.vertex import batch_prediction

    batch_prediction.read_samples(settings.data)
    return [batch_prediction.described(vertex, settings.model, str(settings.output), settings.machines)[1]]


def predict(vertex: VertexClient, settings: PredictSettings, say: Say, warn: Say) -> Mapping[str, Any]:
    """Predict the rows of a file, and return how many there are, and their error where they have labels.

    Raises:
        ArtifactError: the file cannot be read or written.
        BackendError: Vertex AI refuses, or does not answer.
        StepError: a batch failed, or some of its samples.
    """
    from qcnn.targets.vertex import batch_prediction

    samples = batch_prediction.read_samples(settings.data)
    if settings.model:
        return _predict_batch(vertex, settings.model, samples, settings, say)
    at = endpoints.get_endpoint(vertex, settings.endpoint or "").name
    found = list(_predicted(vertex, at, samples))
    _write(samples, found, settings.output, say)
    if samples.label is None:
        return {"rows": len(samples)}
    error = sum((value - label) ** 2 for value, label in zip(found, samples.label.tolist(), strict=True)) / len(found)
    warn(f"mse {error:.6f}")
    return {"rows": len(samples), "mse": error}


def _predicted(vertex: VertexClient, endpoint: str, samples: EndpointSamples) -> Iterator[float]:
    from google.protobuf import json_format, struct_pb2

    from qcnn.jobs.vertex.client import aiplatform

    most = max(1, _CHUNK // len(samples.columns))
    for start in range(0, len(samples), most):
        chosen = samples.instances(start, start + most)
        instances = [json_format.ParseDict(each, struct_pb2.Value()) for each in chosen]
        request = aiplatform.PredictRequest(endpoint=endpoint)
        aiplatform.PredictRequest.pb(request).instances.extend(instances)
        answer = vertex.ask("PredictionService.predict", request)
        predictions = list(answer.predictions)
        if len(predictions) != len(instances):
            raise BackendError(f"endpoint: {len(instances)} samples have other predictions. Given: {len(predictions)}")
        yield from map(float, predictions)


def _predict_batch(
    vertex: VertexClient, model: str, samples: EndpointSamples, settings: PredictSettings, say: Say
) -> Mapping[str, Any]:
    from qcnn.targets.vertex import batch_prediction

    output = str(parse_bucket_uri(settings.output or ""))
    job = batch_prediction.begin(vertex, model, samples, output, settings.machines)
    say(f"{job.name}: {len(samples)} samples")
    ended = batch_prediction.follow(vertex, job, say)
    where = str(ended.output_info.gcs_output_directory)
    say(f"predictions: {where}")
    failed = ended.completion_stats.failed_count
    if failed:
        raise StepError(f"batch prediction: some samples could not be predicted. Given: {failed} of {len(samples)}")
    return {"rows": len(samples), "predictions": where}


def _write(samples: EndpointSamples, predictions: Sequence[float], output: str | None, say: Say) -> None:
    import numpy as np

    from qcnn.tables.table import new_table

    columns = dict(samples.columns)
    if "qubit" in columns:
        columns["qubit"] = columns["qubit"].astype(np.int64)
    columns |= {} if samples.label is None else {LABEL: samples.label}
    columns[PREDICTION] = np.array(predictions)
    if output is not None:
        with new_table(output) as write:
            write(columns)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    say(text.getvalue().removesuffix("\n"))
