"""qcnn compare --target vertex: the runs of an experiment on Vertex AI, and of this machine, side by side."""

from cli.compare import compare_command
from cli.vertex.experiment_runs import experiment_runs
from cli.vertex.service.connection import place_options

compare = compare_command("Vertex AI", experiment_runs, place_options)
