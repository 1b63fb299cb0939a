"""The request that runs a pipeline on Vertex AI: made from Google's own message type, and checked before it is sent."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.cli.library_output import quiet
from qcnn.cli.vertex.submitting.submission import Submission
from qcnn.errors import ConfigError, given, one_line
from qcnn.jobs.job import slug
from qcnn.jobs.vertex.location import Place

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest

_ID_LENGTH = 128


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
        ConfigError: the pipeline does not take these arguments.
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


def _checked(documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    (spec,) = documents
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
