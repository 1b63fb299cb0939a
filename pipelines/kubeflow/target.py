"""Kubeflow Pipelines, with training as a TFJob."""

from qcnn.jobs.pod import WORKER_ACCOUNT
from qcnn.pipelines.compilation import Target
from qcnn.pipelines.kubeflow.platform import platform
from qcnn.pipelines.kubeflow.training import train_as_tfjob

KUBEFLOW = Target(
    train=train_as_tfjob,
    # What deploy/rbac.yaml makes for the training's pods, which have to see that their launcher is there.
    pod_defaults={"service_account": WORKER_ACCOUNT},
    platform=platform,
)
