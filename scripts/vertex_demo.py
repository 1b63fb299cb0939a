"""Shows the commands of Vertex AI on one machine: python scripts/vertex_demo.py.

They talk, by Google's own client, to the local server that the tests use. It is made of Google's message types, and
runs every step of a pipeline as a process.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.vertex.server.vertex import Vertex  # noqa: E402

_QCNN = Path(sys.executable).with_name("qcnn")
_EXPERIMENT = ("--experiment", "demo")
_SMALL = ("--qubits", "4", "--rounds", "30", "--batch-size", "16", "--epochs", "5", "--num-initializations", "1")


def main() -> None:
    """Submit an experiment, wait for its end, look at what it has left, and have it answer requests."""
    with (
        tempfile.TemporaryDirectory(prefix="qcnn-vertex-") as folder,
        contextlib.closing(Vertex(Path(folder))) as server,
    ):
        place = {"GOOGLE_CLOUD_PROJECT": server.project, "GOOGLE_CLOUD_REGION": server.location}
        environment = server.process_environment() | place

        def qcnn(command: str, *words: str) -> None:
            typed = [command, "--target", "vertex", *words]
            print(f"\n$ qcnn {' '.join(typed)}", flush=True)
            done = subprocess.run([_QCNN, *typed], cwd=folder, env=environment, check=False)
            if done.returncode:
                sys.exit(done.returncode)

        print(f"a Vertex AI on this machine: {server.endpoint}, project {server.project}, {server.location}")
        # The server runs the processes here, whatever their image.
        sent = ("--pipeline-root", f"gs://{server.bucket}/runs", "--image", "registry.example/qcnn:demo")
        qcnn("submit", *sent, *_EXPERIMENT, "--run-name", "first", "--wait", *_SMALL)
        qcnn("status", "first")
        qcnn("compare", *_EXPERIMENT)
        qcnn("deploy", "--run", "first", "--endpoint", "readouts")
        Path(folder, "samples.csv").write_text("qubit,angle,label\n0,0.25,1\n3,-2.5,-1\n", encoding="utf-8")
        qcnn("predict", "--endpoint", "readouts", "--data", "samples.csv")
        qcnn("undeploy", "readouts", "--yes")
        qcnn("delete", *_EXPERIMENT, "--yes")


if __name__ == "__main__":
    main()
