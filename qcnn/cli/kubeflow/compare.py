"""qcnn compare --target kubeflow: the runs of an experiment of a backend, and of this machine, side by side."""

from qcnn.cli.compare import compare_command
from qcnn.cli.kubeflow.experiment_runs import experiment_runs
from qcnn.cli.options.settings import backend_options, metadata_host_option

compare = compare_command("a Kubeflow backend", experiment_runs, metadata_host_option, backend_options)
