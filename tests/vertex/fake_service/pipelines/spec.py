"""Validation of a pipeline job's spec and parameters, as at the creation of a job on the service.

Types are those of KFP's PipelineSpec, and of ParameterType in its pipeline_spec.proto.
"""

import json
from collections.abc import Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from tests.vertex.fake_service.errors import StatusError, check_display_name, check_labels, require

Json = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int,),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}


def read_spec(job: v1.PipelineJob) -> Json:
    """Return the compiled pipeline of a job as JSON.

    Raises:
        StatusError: If the spec has an unknown field or lacks a required one.
    """
    check_display_name(job.display_name or "unnamed")
    check_labels(dict(job.labels))
    given = v1.PipelineJob.to_dict(job, preserving_proto_field_name=True).get("pipeline_spec")
    require("pipeline_job.pipeline_spec", given)
    try:
        spec = json_format.ParseDict(given, PipelineSpec())
    except json_format.ParseError as error:
        raise StatusError(400, f"Invalid pipeline_spec: {error}") from None
    found: Json = json_format.MessageToDict(spec)
    for field in ("pipelineInfo", "root", "schemaVersion", "sdkVersion"):
        require(f"pipeline_spec.{field}", found.get(field))
    components = {found["root"].get("executorLabel"), *_references(found["root"])}
    for component in found.get("components", {}).values():
        components |= _references(component)
    if missing := components - set(found.get("components", {})) - {None}:
        raise StatusError(400, f"Invalid pipeline_spec: components are not defined: {sorted(missing)}")
    return found


def read_root(job: v1.PipelineJob, spec: Json) -> str:
    """Return the folder of a job's outputs.

    Raises:
        StatusError: If it is not in a bucket.
    """
    root = job.runtime_config.gcs_output_directory or spec.get("defaultPipelineRoot", "")
    require("pipeline_job.runtime_config.gcs_output_directory", root)
    if not root.startswith("gs://") or not root.removeprefix("gs://").strip("/"):
        raise StatusError(400, f"gcs_output_directory must be a path in a bucket, as gs://BUCKET/PATH. Given: {root}")
    return root.rstrip("/")


def read_parameters(job: v1.PipelineJob, spec: Json) -> Json:
    """Return the value of every parameter of the pipeline in its type.

    Raises:
        StatusError: If a parameter is unknown, missing or of another type.
    """
    definitions = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    if len(job.runtime_config.parameters):
        raise StatusError(400, "runtime_config.parameters is for schema version 2.0.0; set parameter_values.")
    given = json.loads(v1.PipelineJob.RuntimeConfig.to_json(job.runtime_config)).get("parameterValues", {})
    if unknown := set(given) - set(definitions):
        raise StatusError(400, f"Parameters are not defined in the pipeline: {sorted(unknown)}")
    return typed(definitions, given)


def typed(definitions: Mapping[str, Json], given: Mapping[str, Any]) -> Json:
    """Return the given values of parameters, or their defaults, in their types.

    Raises:
        StatusError: If a parameter is missing or of another type.
    """
    found: Json = {}
    for name, definition in definitions.items():
        if name in given:
            found[name] = _typed(name, given[name], definition["parameterType"])
        elif "defaultValue" in definition:
            found[name] = _typed(name, definition["defaultValue"], definition["parameterType"])
        elif not definition.get("isOptional"):
            raise StatusError(400, f"Parameter {name!r} is required.")
    return found


def _typed(name: str, value: Any, kind: str) -> Any:
    value = whole(value)
    wanted = _TYPES.get(kind, (object,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind.startswith("NUMBER")):
        raise StatusError(400, f"Parameter {name!r} must be of type {kind}. Given: {json.dumps(value)[:200]}")
    return value


def whole(value: Any) -> Any:
    """Return a value with whole numbers as integers, because a protobuf Struct has floating point numbers only."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(each) for each in value]
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    return value


def _references(component: Json) -> set[str]:
    return {task["componentRef"]["name"] for task in component.get("dag", {}).get("tasks", {}).values()}
