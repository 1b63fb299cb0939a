"""A real TensorBoard for tests, and readers of what it serves and of what it is given."""

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
    """A TensorBoard that answers at `address`."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def get(self, path: str, body: dict[str, Any] | None = None, **query: Any) -> Any:
        """Return the JSON of a page, as data/plugin/..."""
        url = f"{self.address}/data/{path}?{urllib.parse.urlencode(query)}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", "Accept-Encoding": "identity"})
        with urllib.request.urlopen(request, timeout=60) as response:
            content = response.read()
        # The profile plugin answers so to everyone.
        return json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)

    def wait(self, path: str, enough: Callable[[Any], object], **query: Any) -> Any:
        """Return a page once it has enough: TensorBoard reads events in the background."""
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                answer = self.get(path, None, **query)
                if enough(answer):
                    return answer
            assert time.monotonic() < end, f"{path} never had enough"
            threading.Event().wait(0.1)


@contextlib.contextmanager
def opened(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Board]:
    """Open `qcnn tensorboard` in a folder on any free port, until the block ends; `environment` is this one's."""
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
    """Return tag -> step -> value of a run's scalars; a step that was written twice fails."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for step, value in _values(run):
        if value.metadata.plugin_data.plugin_name == "scalars":
            assert step not in found[value.tag], f"{value.tag} twice at step {step}"
            found[value.tag][step] = float(tf.make_ndarray(value.tensor))
    return found


def tensors(run: Path, plugin: str) -> dict[str, Any]:
    """Return tag -> last value of what a run holds for a plugin."""
    return {
        value.tag: tf.make_ndarray(value.tensor)
        for _, value in _values(run)
        if value.metadata.plugin_data.plugin_name == plugin
    }


def _values(run: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(run.glob("events.*")):
        for record in tf.compat.v1.train.summary_iterator(str(path)):
            for value in record.summary.value:
                yield record.step, value
