"""qcnn compare --target vertex: the runs of an experiment on Vertex AI, and of this machine, side by side."""

from qcnn.cli.compare import compare_command
from qcnn.cli.options.settings import place_options
from qcnn.cli.vertex.experiment_runs import experiment_runs

compare = compare_command("Vertex AI", experiment_runs, place_options)
