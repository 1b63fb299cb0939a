"""All that pipelines are compiled for; the commands of each target are in qcnn/cli/targets.py."""

from qcnn.pipelines.compiler import Target
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.pipelines.vertex import VERTEX

TARGETS: dict[str, Target] = {"kubeflow": KUBEFLOW, "vertex": VERTEX}
