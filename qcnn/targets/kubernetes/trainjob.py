"""The target trainjob: TrainJobs of Kubeflow Trainer."""

from collections.abc import Sequence
from typing import ClassVar

from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import JOB
from qcnn.jobs.trainjob.engine import TRAINJOB
from qcnn.targets.kubernetes.target import TrainingJobTarget


class TrainJobTarget(TrainingJobTarget):
    """The target for TrainJobs of Kubeflow Trainer."""

    name: ClassVar[str] = "trainjob"
    title: ClassVar[str] = "a cluster with Kubeflow Trainer"
    job_kind: ClassVar[str] = TRAINJOB.name
    kinds: ClassVar[Sequence[str]] = (TRAINJOB.name, JOB.name)
    engine: ClassVar[Engine | None] = TRAINJOB
