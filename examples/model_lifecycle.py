"""A model in use: train, register, serve, train again on more data, promote, and roll back.

python -m examples.model_lifecycle FOLDER
"""

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from sklearn.datasets import make_moons

import qcnn

# Row to predict, and seconds to wait for a changed answer.
ROW, SECONDS = [0.5, 0.25], 60
_ADDRESS = re.compile(r"serving on (http://\S+)")


def train(folder: Path, rows: int, epochs: int) -> Path:
    """Train on a number of rows of two half moons, and return the folder of the run."""
    x, y = make_moons(1200, noise=0.2, random_state=0)
    experiment = qcnn.Experiment(qubits=4, encoding="ry", epochs=epochs, workers=1, strategy="none", seed=rows)
    qcnn.train(experiment, folder, data=(x[:rows], y[:rows]), progress=False)
    return folder


def command(*arguments: str) -> str:
    """Run the command qcnn, and return its output."""
    done = subprocess.run([sys.executable, "-m", "qcnn.cli", *arguments], stdout=subprocess.PIPE, text=True, check=True)
    print(f"$ qcnn {' '.join(arguments)}\n{done.stdout}", end="")
    return done.stdout


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Context manager that runs `qcnn serve` on a free port, and yields its URL."""
    serve = [sys.executable, "-m", "qcnn.cli", "serve", "--port", "0", "--poll-seconds", "0.2", *arguments]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            address = next(match[1] for line in process.stderr if (match := _ADDRESS.search(line)))
            # The pipe must not become full.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield address
        finally:
            process.terminate()


class Client(threading.Thread):
    """Client that sends one request after the other.

    Attributes:
        answers: Different predictions in a row.
        requests: Number of requests.
        failures: Reasons of failed requests.
    """

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.answers, self.failures, self.requests = list[float](), list[str](), 0
        self._url, self._ended = url, threading.Event()

    def run(self) -> None:
        """Send requests until `stop`."""
        body = json.dumps({"instances": [ROW]}).encode()
        while not self._ended.is_set():
            self.requests += 1
            try:
                with urllib.request.urlopen(urllib.request.Request(self._url, body), timeout=SECONDS) as response:
                    (answer,) = json.load(response)["predictions"]
            except (OSError, ValueError) as error:
                self.failures.append(str(error))
                continue
            if not self.answers or answer != self.answers[-1]:
                self.answers.append(answer)

    def wait_for(self, answers: int) -> None:
        """Wait until the answer has changed."""
        end = time.monotonic() + SECONDS
        while len(self.answers) < answers and time.monotonic() < end:
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop after the current request."""
        self._ended.set()
        self.join()


def main(folder: Path) -> Client:
    """Run all steps in a folder, and return the client."""
    registry = ("--registry", str(folder / "models"))
    command("register", str(train(folder / "first", 120, epochs=2)), "--name", "moons", *registry)
    command("promote", "moons", *registry)
    with server("moons@champion", *registry) as address:
        client = Client(f"{address}/v1/models/moons:predict")
        client.start()
        client.wait_for(1)
        command("register", str(train(folder / "second", 1200, epochs=20)), "--name", "moons", *registry)
        command("promote", "moons", *registry)
        client.wait_for(2)
        # Roll back to the first version.
        command("promote", "moons", "--version", "1", "--force", *registry)
        client.wait_for(3)
        client.stop()
    command("models", "moons", *registry)
    print(f"answers {client.answers} to {client.requests} requests, {len(client.failures)} failed")
    return client


if __name__ == "__main__":
    main(Path(sys.argv[1]))
