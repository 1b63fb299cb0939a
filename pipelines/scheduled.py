"""A compiled pipeline that is run again and again: each run has a seed of its own."""

from typing import Any

from kfp import dsl

_TASK, _INPUT = "generate-data", "run"


def seeded_by_run(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a compiled pipeline whose first step makes its seed from the id of the run.

    An expression of the backend such as [[Index]] gives text, which no integer parameter takes, and none in a
    pipeline that its schedule holds itself (2.17).
    """
    root = spec["root"]
    task = root["dag"]["tasks"][_TASK]
    constant = {"runtimeValue": {"constant": dsl.PIPELINE_JOB_ID_PLACEHOLDER}}
    inputs = {**task["inputs"], "parameters": {**task["inputs"]["parameters"], _INPUT: constant}}
    tasks = {**root["dag"]["tasks"], _TASK: {**task, "inputs": inputs}}
    return {**spec, "root": {**root, "dag": {**root["dag"], "tasks": tasks}}}
