"""All that pipelines are compiled for; the commands of each target are in cli/targets.py."""

from pipelines.compilation import Target
from pipelines.kubeflow.target import KUBEFLOW
from pipelines.vertex.target import VERTEX

TARGETS: dict[str, Target] = {"kubeflow": KUBEFLOW, "vertex": VERTEX}
