"""A pipeline that is run again and again: each run has a seed of its own, which the first step makes from the run's id.

An expression of the backend such as [[Index]] gives text, which no integer parameter takes, and none in a pipeline that
its schedule holds itself (2.17).
"""

from typing import Any

from kfp import dsl

# What the first step is given beside the experiment's words.
RUN_ID = {"run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
_FIRST_STEP = "generate-data"


def seeded_by_run(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline as it would have been compiled for a schedule; for a file that was compiled before.

    Raises:
        LookupError: its first step is not that of the main pipeline.
    """
    root = spec["root"]
    task = root["dag"]["tasks"][_FIRST_STEP]
    constants = {name: {"runtimeValue": {"constant": value}} for name, value in RUN_ID.items()}
    inputs = {**task["inputs"], "parameters": {**task["inputs"]["parameters"], **constants}}
    tasks = {**root["dag"]["tasks"], _FIRST_STEP: {**task, "inputs": inputs}}
    return {**spec, "root": {**root, "dag": {**root["dag"], "tasks": tasks}}}
