"""The target tfjob: TFJobs of the training operator."""

from collections.abc import Sequence
from typing import ClassVar

from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import JOB
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.targets.kubernetes.target import TrainingJobTarget


class TFJobTarget(TrainingJobTarget):
    """The target for TFJobs of the training operator."""

    name: ClassVar[str] = "tfjob"
    title: ClassVar[str] = "a cluster with the Kubeflow training operator"
    job_kind: ClassVar[str] = TFJOB.name
    kinds: ClassVar[Sequence[str]] = (TFJOB.name, JOB.name)
    engine: ClassVar[Engine | None] = TFJOB
