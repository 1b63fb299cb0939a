"""Settings of Vertex AI pipeline runs, the request that creates a run, and a check of its bucket."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError, single_line
from qcnn.jobs.job import slug
from qcnn.jobs.vertex.location import VertexLocation
from qcnn.run_names import timestamp
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets.base import Prepared, Submitted
from qcnn.targets.compiled_pipeline import PipelineInputs, PipelineSource, check_arguments, pod_settings_in
from qcnn.targets.errors import suppress_output
from qcnn.targets.settings import setting
from qcnn.targets.vertex.client import Connection, as_json
from qcnn.targets.vertex.runs import EXPERIMENT_LABEL

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest, CreateScheduleRequest

logger = logging.getLogger("qcnn")


def check_bucket(root: str, place: VertexLocation, warn: Callable[[str], None]) -> None:
    """Raise ConfigError if a bucket does not exist, and warn if it is in another region.

    In another region, every step copies data between regions.

    Args:
        root: URI of a folder in the bucket.
        place: Location of the run.
        warn: Callback for the warning.

    Raises:
        ConfigError: If the bucket does not exist, or there are no credentials.
    """
    # This import takes a second.
    from qcnn.storage.gcs import bucket_region

    address = parse_bucket_uri(root)
    assert address
    region = bucket_region(address, place.project)
    if region and region != place.location:
        warn(
            f"warning: pipeline root: the bucket is in {region}, the run in {place.location}; copies between them are "
            f"slow and billed. Given: {root}"
        )


EXPERIMENT = "qcnn"
# cloud.google.com/resource-manager/docs/labels-overview: keys begin with a letter, 64 labels in all.
_LABEL = re.compile(r"([a-z][a-z0-9_-]{0,62})=([a-z0-9_-]{0,63})")
_MAX_LABELS = 64
# vertex-ai/docs/experiments: allowed experiment names. As label values, they have at most 63 characters.
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NETWORK = re.compile(r"projects/[^/\s]+/global/networks/[^/\s]+")
_NAME_LENGTH = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(PipelineSource, Connection):
    """Settings of a Vertex AI pipeline run. Vertex AI resolves values of None.

    Raises:
        ConfigError: If a setting is malformed.
    """

    pipeline_root: str = setting("Root folder of the artifacts, such as gs://BUCKET/FOLDER.", metavar="URI")
    experiment: str = setting("Vertex AI experiment of the run.", EXPERIMENT, metavar="NAME")
    run_name: str | None = setting("Name of the run.", None, shown="pipeline name and time", metavar="NAME")
    service_account: str | None = setting("Google service account of the steps.", None, metavar="NAME")
    network: str | None = setting(
        "VPC network to peer with, as projects/NUMBER/global/networks/NAME.", None, metavar="NAME"
    )
    labels: Sequence[str] = setting("Label of the run.", (), flag="label", metavar="KEY=VALUE")
    caching: bool | None = setting(
        "Override step caching for all steps.", None, shown="as compiled: on, except for training"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        root = parse_bucket_uri(self.pipeline_root)
        if root is None or root.scheme != "gs":
            raise ConfigError(f"pipeline root: must be gs://BUCKET/FOLDER. Given: {self.pipeline_root}")
        if self.run_name is not None and not 1 <= len(self.run_name) <= _NAME_LENGTH:
            raise ConfigError(f"run name: must have 1 to {_NAME_LENGTH} characters. Given: {self.run_name}")
        _check("experiment", self.experiment, _EXPERIMENT, "1 to 63 lowercase letters, digits and hyphens")
        account = "an account, as NAME@PROJECT.iam.gserviceaccount.com"
        _check("service account", self.service_account, _ACCOUNT, account)
        _check("network", self.network, _NETWORK, "projects/NUMBER/global/networks/NAME")
        self.all_labels()

    def all_labels(self) -> dict[str, str]:
        """Return the given labels, and the label of the experiment.

        Raises:
            ConfigError: If a label is malformed, or there are too many.
        """
        found = {**dict(map(_label, self.labels)), EXPERIMENT_LABEL: self.experiment}
        if len(found) > _MAX_LABELS:
            raise ConfigError(f"label: must be at most {_MAX_LABELS}, with those of qcnn. Given: {len(found)}")
        return found


def _check(name: str, value: str | None, form: re.Pattern[str], allowed: str) -> None:
    if value is not None and not form.fullmatch(value):
        raise ConfigError(f"{name}: must be {allowed}. Given: {value}")


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if not found:
        raise ConfigError(
            "label: must be KEY=VALUE, each at most 63 lowercase letters, digits, underscores and hyphens, the key "
            f"starting with a letter. Given: {text}"
        )
    if found[1] == EXPERIMENT_LABEL:
        raise ConfigError(f"label: {EXPERIMENT_LABEL} must be set with --experiment. Given: {text}")
    return found[1], found[2]


_ID_LENGTH = 128


def run_request(
    documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], name: str, settings: RunSettings
) -> CreatePipelineJobRequest:
    """Return the request that runs a compiled pipeline.

    The run ID is generated here, so that a retried request does not create a second run.

    Args:
        documents: Documents of the compiled pipeline.
        arguments: Pipeline arguments.
        name: Prefix of the default run name, which ends with the time.
        settings: Settings of the run.

    Raises:
        ConfigError: If the pipeline does not have these parameters.
    """
    with suppress_output():
        from google.cloud.aiplatform_v1 import CreatePipelineJobRequest
        from google.protobuf import json_format

    (spec,) = documents
    check_arguments(spec, arguments)
    display_name = settings.run_name or f"{name}-{timestamp()}"
    account = {"serviceAccount": settings.service_account} if settings.service_account else {}
    network = {"network": settings.network} if settings.network else {}
    described = {
        "parent": settings.place.parent,
        "pipelineJobId": _identity(display_name),
        "pipelineJob": {
            "displayName": display_name,
            "labels": settings.all_labels(),
            "pipelineSpec": spec if settings.caching is None else _with_caching(spec, settings.caching),
            "runtimeConfig": {
                "gcsOutputDirectory": settings.pipeline_root,
                "parameterValues": dict(arguments),
            },
            **account,
            **network,
        },
    }
    try:
        message = json_format.ParseDict(described, CreatePipelineJobRequest.pb(CreatePipelineJobRequest()))
    except json_format.ParseError as error:
        raise ConfigError(
            f"request: must be valid for Vertex AI ({single_line(error)}). Given: {display_name}"
        ) from None
    request: CreatePipelineJobRequest = CreatePipelineJobRequest.wrap(message)
    return request


def prepared(
    request: CreatePipelineJobRequest | CreateScheduleRequest,
    documents: Sequence[Mapping[str, Any]],
    inputs: PipelineInputs,
    settings: RunSettings,
    send: Callable[[], Submitted],
) -> Prepared:
    """Return the submission of a compiled pipeline, once or by a schedule.

    Args:
        request: Request that creates the run or the schedule.
        documents: Documents of the compiled pipeline.
        inputs: Pipeline arguments, and the experiments of the run.
        settings: Settings of the run.
        send: Sends the request.
    """
    return Prepared(
        lambda: [json.loads(as_json(request))],
        lambda: check_bucket(settings.pipeline_root, settings.place, logger.warning),
        send,
        pod_settings_in(documents[0]),
        inputs.trials,
    )


def _with_caching(spec: Mapping[str, Any], caching: bool) -> dict[str, Any]:
    """Return a compiled pipeline with the same cache setting in all tasks, as Google's client does."""

    def changed(component: Mapping[str, Any]) -> dict[str, Any]:
        if "dag" not in component:
            return dict(component)
        tasks = {
            name: {**task, "cachingOptions": {"enableCache": caching}}
            for name, task in component["dag"]["tasks"].items()
        }
        return {**component, "dag": {**component["dag"], "tasks": tasks}}

    components = {name: changed(component) for name, component in spec["components"].items()}
    return {**spec, "root": changed(spec["root"]), "components": components}


def _identity(name: str) -> str:
    """Return a unique run ID: the allowed characters of a name, and eight random digits."""
    end = f"-{secrets.token_hex(4)}"
    readable = slug(name)[: _ID_LENGTH - len(end) - len("r-")].strip("-")
    return f"{readable if readable[:1].isalpha() else f'r-{readable}'.strip('-')}{end}"
