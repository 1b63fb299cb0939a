"""Check of a simulator whose library loads TensorFlow: python -m qcnn.planning.library_check local|remote.

Reads an experiment as JSON from stdin. If its simulator does not support its circuit, prints the error in one line and
exits with code 1.
"""

import dataclasses
import sys

from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_json
from qcnn.planning.plan import network_of
from qcnn.simulators import registry


def main() -> None:
    """Check the simulator of the experiment on stdin."""
    config = from_json(sys.stdin.read())
    limits = dataclasses.replace(config.limits, is_remote=sys.argv[1] == "remote")
    try:
        registry.check(config.simulator, network_of(config), limits)
    except ConfigError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
