"""Placeholders in a compiled pipeline: {{$}}, {{$.pipeline_job_name}}, {{$.inputs.parameters['x']}} and so on.

Of kfp.dsl.placeholders, and those that Google's own components use (google_cloud_pipeline_components' _placeholders).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{\{\$(?P<path>[^}]*)\}\}")
_STEP = re.compile(r"\.(\w+)|\[['\"]([^'\"]+)['\"]\]")


class UnknownPlaceholderError(Exception):
    """A placeholder stands for nothing."""


def resolved(text: str, run: Mapping[str, str], executor_input: Mapping[str, Any], mount: str = "/gcs") -> str:
    """Return a text with what its placeholders stand for.

    `run` has those of the pipeline job and the task by their names; `executor_input` is kfp's ExecutorInput as JSON;
    `mount` is the folder in which buckets are seen.

    Raises:
        UnknownPlaceholderError: there is no such value.
    """

    def value(found: re.Match[str]) -> str:
        path = [first or second for first, second in _STEP.findall(found["path"])]
        if not path:
            return json.dumps(executor_input)
        if len(path) == 1 and path[0] in run:
            return run[path[0]]
        return _in_input(path, executor_input, mount)

    return _PLACEHOLDER.sub(value, text)


def _in_input(path: list[str], executor_input: Mapping[str, Any], mount: str) -> str:
    try:
        match path:
            case ["inputs", "parameters", name]:
                return _text(executor_input["inputs"]["parameterValues"][name])
            case ["inputs" | "outputs" as side, "artifacts", name, field, *rest]:
                artifact = executor_input[side]["artifacts"][name]["artifacts"][0]
                if field == "path":
                    return str(artifact["uri"]).replace("gs://", f"{mount}/", 1)
                return _text(artifact[field][rest[0]] if rest else artifact[field])
            case ["outputs", "parameters", name, "output_file"]:
                return str(executor_input["outputs"]["parameters"][name]["outputFile"])
            case ["outputs", "output_file"]:
                return str(executor_input["outputs"]["outputFile"])
    except (KeyError, IndexError):
        pass
    raise UnknownPlaceholderError(f"Placeholder cannot be resolved: {'.'.join(path)}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
