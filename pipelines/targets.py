"""All that pipelines are compiled for; the commands of each target are in qcnn/cli/targets.py."""

from qcnn.pipelines.compilation import Target
from qcnn.pipelines.kubeflow.target import KUBEFLOW
from qcnn.pipelines.vertex.target import VERTEX

TARGETS: dict[str, Target] = {"kubeflow": KUBEFLOW, "vertex": VERTEX}
