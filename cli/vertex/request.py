"""The request that runs a pipeline on Vertex AI: made from Google's own message type, and checked before it is sent."""

from __future__ import annotations

import dataclasses
import datetime
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli.messages import quiet
from cli.options.group import options_as
from cli.vertex.service.runs import EXPERIMENT_LABEL
from launchers.naming import slug
from launchers.vertex.place import Place
from trainer.errors import ConfigError, given, one_line
from trainer.storage.address import in_bucket

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest

EXPERIMENT = "qcnn"
# cloud.google.com/resource-manager/docs/labels-overview: keys begin with a letter, 64 labels in all.
_LABEL = re.compile(r"([a-z][a-z0-9_-]{0,62})=([a-z0-9_-]{0,63})")
_MOST_LABELS = 64
# vertex-ai/docs/experiments: what names an experiment; as the value of a label it is at most 63 characters long.
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NETWORK = re.compile(r"projects/[^/\s]+/global/networks/[^/\s]+")
_NAME_LENGTH, _ID_LENGTH = 128, 128


@dataclasses.dataclass(frozen=True)
class Submission:
    """How a pipeline is run on Vertex AI; what is None is left to it.

    Raises:
        ConfigError: one of these is malformed.
    """

    pipeline_root: str
    experiment: str = EXPERIMENT
    run_name: str | None = None
    service_account: str | None = None
    network: str | None = None
    labels: Sequence[str] = ()
    caching: bool | None = None

    def __post_init__(self) -> None:
        root = in_bucket(self.pipeline_root)
        if root is None or root.scheme != "gs":
            raise ConfigError(f"pipeline root: must be gs://BUCKET/FOLDER. Given: {self.pipeline_root}")
        if self.run_name is not None and not 1 <= len(self.run_name) <= _NAME_LENGTH:
            raise ConfigError(f"run name: must have 1 to {_NAME_LENGTH} characters. Given: {self.run_name}")
        for name, value, form, allowed in (
            ("experiment", self.experiment, _EXPERIMENT, "1 to 63 small letters, digits and hyphens"),
            (
                "service account",
                self.service_account,
                _ACCOUNT,
                "an account's address, NAME@PROJECT.iam.gserviceaccount.com",
            ),
            ("network", self.network, _NETWORK, "projects/NUMBER/global/networks/NAME"),
        ):
            if value is not None and not form.fullmatch(value):
                raise ConfigError(f"{name}: must be {allowed}. Given: {value}")
        self.all_labels()

    def all_labels(self) -> dict[str, str]:
        """Return the labels of the run: those that are given, and those by which it is found again.

        Raises:
            ConfigError: one is malformed, or they are too many.
        """
        found = {**dict(map(_label, self.labels)), EXPERIMENT_LABEL: self.experiment}
        if len(found) > _MOST_LABELS:
            raise ConfigError(f"label: there may be {_MOST_LABELS}, ours among them. Given: {len(found)}")
        return found


# Gives a command the options that a `Submission` is made of, and hands it `submission`.
submission_options = options_as(
    "submission",
    Submission,
    click.option(
        "--pipeline-root", required=True, metavar="URL", help="Where artifacts go, such as gs://BUCKET/FOLDER."
    ),
    click.option(
        "--experiment",
        default=EXPERIMENT,
        show_default=True,
        metavar="NAME",
        help="What the run belongs to; a label of it.",
    ),
    click.option("--run-name", metavar="NAME", help="Name of the run.  [default: the pipeline and the time]"),
    click.option("--service-account", metavar="ADDRESS", help="Google service account that the steps run as."),
    click.option("--network", metavar="NAME", help="Network to peer with, as projects/NUMBER/global/networks/NAME."),
    click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="Label of the run; may come often."),
    click.option(
        "--caching/--no-caching", default=None, help="For all steps.  [default: as compiled, on but for training]"
    ),
)


def run_request(
    place: Place,
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    submission: Submission,
) -> CreatePipelineJobRequest:
    """Return the request that runs a compiled pipeline.

    Without a name of its own the run is called `name` and the time. Its id is chosen here, so that a request that is
    sent twice makes one run.

    Raises:
        ConfigError: the pipeline is not one for Vertex AI, or does not take these arguments.
    """
    with quiet():
        from google.cloud.aiplatform_v1 import CreatePipelineJobRequest
        from google.protobuf import json_format

    spec = _checked(documents, arguments)
    display_name = submission.run_name or f"{name}-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S}"
    account = {"serviceAccount": submission.service_account} if submission.service_account else {}
    network = {"network": submission.network} if submission.network else {}
    described = {
        "parent": place.parent,
        "pipelineJobId": _identity(display_name),
        "pipelineJob": {
            "displayName": display_name,
            "labels": submission.all_labels(),
            "pipelineSpec": spec if submission.caching is None else _cached(spec, submission.caching),
            "runtimeConfig": {
                "gcsOutputDirectory": submission.pipeline_root,
                "parameterValues": dict(arguments),
            },
            **account,
            **network,
        },
    }
    try:
        message = json_format.ParseDict(described, CreatePipelineJobRequest.pb(CreatePipelineJobRequest()))
    except json_format.ParseError as error:
        raise ConfigError(f"request: Vertex AI does not take it ({one_line(error)}). Given: {display_name}") from None
    request: CreatePipelineJobRequest = CreatePipelineJobRequest.wrap(message)
    return request


def _check(name: str, value: str | None, form: re.Pattern[str], allowed: str) -> None:
    if value is not None and not form.fullmatch(value):
        raise ConfigError(f"{name}: must be {allowed}. Given: {value}")


def _checked(documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    spec, *others = documents
    if others:
        raise ConfigError(
            "package: must be one document; a second one is Kubernetes' own, which compile.py writes for kubeflow. "
            f"Given: {len(documents)} documents"
        )
    known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    if unknown := sorted(arguments.keys() - known.keys()):
        raise ConfigError(f"package: the pipeline takes no {', '.join(unknown)}. Given: {given(sorted(known))}")
    return spec


def _cached(spec: Mapping[str, Any], caching: bool) -> dict[str, Any]:
    """Return a compiled pipeline whose tasks all have this setting, as Google's own client sets it."""

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
    """Return an id that no other run has: what an id can hold of a name, and eight random digits."""
    end = f"-{secrets.token_hex(4)}"
    readable = slug(name)[: _ID_LENGTH - len(end) - len("r-")].strip("-")
    return f"{readable if readable[:1].isalpha() else f'r-{readable}'.strip('-')}{end}"


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if not found:
        raise ConfigError(
            "label: must be KEY=VALUE, each at most 63 small letters, digits, underscores and hyphens, the key "
            f"beginning with a letter. Given: {text}"
        )
    if found[1] == EXPERIMENT_LABEL:
        raise ConfigError(f"label: {EXPERIMENT_LABEL} is what --experiment sets. Given: {text}")
    return found[1], found[2]
