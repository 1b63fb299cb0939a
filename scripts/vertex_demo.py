"""Demonstration of the Vertex AI commands on the local machine: python scripts/vertex_demo.py.

The commands use Google's client and the local server of the tests. The server uses Google's message types and runs
each step of a pipeline as a process.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.vertex.fake_service.vertex import Vertex  # noqa: E402

_QCNN = Path(sys.executable).with_name("qcnn")
_EXPERIMENT = ("--experiment", "demo")
_SMALL = ("--qubits", "4", "--rounds", "30", "--batch-size", "16", "--epochs", "5", "--num-initializations", "1")


def main() -> None:
    """Submit an experiment, wait for it, view its results and deploy its model."""
    with (
        tempfile.TemporaryDirectory(prefix="qcnn-vertex-") as folder,
        contextlib.closing(Vertex(Path(folder))) as server,
    ):
        location = {"GOOGLE_CLOUD_PROJECT": server.project, "GOOGLE_CLOUD_REGION": server.location}
        environment = server.process_environment() | location

        def qcnn(command: str, *options: str) -> None:
            arguments = [command, "--target", "vertex", *options]
            print(f"\n$ qcnn {' '.join(arguments)}", flush=True)
            done = subprocess.run([_QCNN, *arguments], cwd=folder, env=environment, check=False)
            if done.returncode:
                sys.exit(done.returncode)

        print(f"local Vertex AI: {server.endpoint}, project {server.project}, {server.location}")
        # The local server runs processes instead of this image.
        request = ("--pipeline-root", f"gs://{server.bucket}/runs", "--image", "registry.example/qcnn:demo")
        qcnn("submit", *request, *_EXPERIMENT, "--run-name", "first", "--wait", *_SMALL)
        qcnn("status", "first")
        qcnn("compare", *_EXPERIMENT)
        qcnn("deploy", "--run", "first", "--endpoint", "readouts")
        Path(folder, "samples.csv").write_text("qubit,angle,label\n0,0.25,1\n3,-2.5,-1\n", encoding="utf-8")
        qcnn("predict", "--endpoint", "readouts", "--data", "samples.csv")
        qcnn("undeploy", "readouts", "--yes")
        qcnn("delete", *_EXPERIMENT, "--yes")


if __name__ == "__main__":
    main()
