"""TensorBoard server for tests, and readers of its pages and of event files."""

import contextlib
import gzip
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

QCNN = Path(sys.executable).with_name("qcnn")


class Board:
    """Client of the TensorBoard at the URL `address`."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def get(self, path: str, body: dict[str, Any] | None = None, **query: Any) -> Any:
        """Return the JSON of a page.

        Args:
            path: Path below data/.
            body: JSON body of a POST request, or None for GET.
            **query: Query parameters.
        """
        url = f"{self.address}/data/{path}?{urllib.parse.urlencode(query)}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", "Accept-Encoding": "identity"})
        with urllib.request.urlopen(request, timeout=60) as response:
            content = response.read()
        # The profile plugin compresses its responses regardless of Accept-Encoding.
        return json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)

    def wait(self, path: str, enough: Callable[[Any], object], **query: Any) -> Any:
        """Poll a page until `enough` is true for it, because TensorBoard reads events in the background.

        Args:
            path: Path below data/.
            enough: Condition on the page.
            **query: Query parameters.
        """
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                answer = self.get(path, None, **query)
                if enough(answer):
                    return answer
            assert time.monotonic() < end, f"{path}: condition not met within 60 s"
            threading.Event().wait(0.1)


@contextlib.contextmanager
def opened(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Board]:
    """Context manager that runs `qcnn tensorboard` on a free port.

    Args:
        *arguments: Arguments of the command.
        folder: Working directory.
        environment: Environment variables, by default those of the test process.
    """
    command = [str(QCNN), "tensorboard", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            address = re.search(r"http\S+", process.stdout.readline())
            assert address
            yield Board(address[0])
        finally:
            process.terminate()


def scalars(run: Path) -> dict[str, dict[int, float]]:
    """Return the scalars of a run by tag and step, and fail if a step was written twice."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for step, value in _values(run):
        if value.metadata.plugin_data.plugin_name == "scalars":
            assert step not in found[value.tag], f"{value.tag} twice at step {step}"
            found[value.tag][step] = float(tf.make_ndarray(value.tensor))
    return found


def tensors(run: Path, plugin: str) -> dict[str, Any]:
    """Return the last value of each tag that a run has for a plugin."""
    return {
        value.tag: tf.make_ndarray(value.tensor)
        for _, value in _values(run)
        if value.metadata.plugin_data.plugin_name == plugin
    }


def _values(run: Path) -> Iterator[tuple[int, Any]]:
    # Names of files that begin in the same second are in the order of the numbers of processes.
    every = [record for path in run.glob("events.*") for record in tf.compat.v1.train.summary_iterator(str(path))]
    for record in sorted(every, key=lambda record: record.wall_time):
        for value in record.summary.value:
            yield record.step, value
