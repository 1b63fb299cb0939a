"""Placeholders of a compiled pipeline, such as {{$}}, {{$.pipeline_job_name}} and {{$.inputs.parameters['x']}}.

Sources: kfp.dsl.placeholders, and _placeholders of google_cloud_pipeline_components.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{\{\$(?P<path>[^}]*)\}\}")
_STEP = re.compile(r"\.(\w+)|\[['\"]([^'\"]+)['\"]\]")


class UnknownPlaceholderError(Exception):
    """A placeholder has no value."""


def resolve(text: str, run: Mapping[str, str], executor_input: Mapping[str, Any], mount: str = "/gcs") -> str:
    """Return a text with the values of its placeholders.

    Args:
        text: Text with placeholders.
        run: Values of the pipeline job and the task by name.
        executor_input: KFP's ExecutorInput as JSON.
        mount: Folder in which buckets are mounted.

    Raises:
        UnknownPlaceholderError: If a placeholder has no value.
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
