"""Process of the train step on Vertex AI: python -m tests.components.steps.train_vertex_step ARGUMENTS

ARGUMENTS are those of `qcnn.components.steps.train_vertex.train` as JSON. The last line of the output is its result.
"""

import json
import sys

from qcnn.components.steps.train_vertex import train
from qcnn.process.error_lines import one_line_errors

if __name__ == "__main__":
    experiment, pod, place, dataset, training, failure = json.loads(sys.argv[1])
    with one_line_errors():
        sys.stdout.write(json.dumps(train(experiment, pod, tuple(place), dataset, training, failure)) + "\n")
