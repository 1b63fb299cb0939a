"""Process of a launcher: python -m tests.cluster.launch_process ARGUMENTS, see `tests.cluster.launchers`."""

import base64
import pickle
import sys

from qcnn.jobs.kubernetes.launch import launch
from qcnn.process.error_lines import one_line_errors


def main() -> None:
    """Launch the pickled job."""
    training, namespace, pending_seconds = pickle.loads(base64.b64decode(sys.argv[1]))
    with one_line_errors():
        launch(training, namespace, pending_seconds=pending_seconds)


if __name__ == "__main__":
    main()
