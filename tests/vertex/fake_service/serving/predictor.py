"""Predictions of a SavedModel in a separate process, as by TensorFlow Serving: python -m ...predictor FOLDER.

The process reads lines of JSON with instances, and writes a line with predictions or an error for each. Both use the
row format of TensorFlow Serving's REST API: objects by input or output name, or plain values if there is only one.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.training.replica import process_environment


class Predictor:
    """Process that has loaded a SavedModel."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)],
            env=process_environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lock = threading.Lock()

    def predict(self, instances: list[Any]) -> list[Any]:
        """Return the predictions of instances.

        Raises:
            StatusError: If the instances are invalid or the model could not be loaded.
        """
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(f"{json.dumps(instances)}\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "The model server has ended."}
        if "error" in answer:
            raise StatusError(400, answer["error"])
        return list(answer["predictions"])

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()


def _values(output: Any) -> list[Any]:
    """Return the rows of an output, text as TensorFlow Serving writes it."""
    rows: list[Any] = output.numpy().tolist()
    return [row.decode() if isinstance(row, bytes) else row for row in rows]


def _serve(folder: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    signature = tf.saved_model.load(folder).signatures["serving_default"]
    inputs = signature.structured_input_signature[1]
    for line in sys.stdin:
        try:
            rows = [row if isinstance(row, dict) else {next(iter(inputs)): row} for row in json.loads(line)]
            given = {name: tf.constant([row[name] for row in rows], spec.dtype) for name, spec in inputs.items()}
            found = {name: _values(value) for name, value in signature(**given).items()}
        except (KeyError, TypeError, ValueError, tf.errors.OpError) as error:
            answer: dict[str, Any] = {"error": f"Failed to process the instances: {error}"[:500]}
        else:
            lines = zip(*found.values(), strict=True)
            objects = [dict(zip(found, line, strict=True)) for line in lines]
            answer = {"predictions": objects if len(found) > 1 else next(iter(found.values()))}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
