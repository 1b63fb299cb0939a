"""What the parts of the target kubeflow share: its backend and its pipelines."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from typing_extensions import override

from qcnn.targets.base import Compiles
from qcnn.targets.cluster import ClusterTarget, P_contra
from qcnn.targets.kubeflow.client import KfpBackend, KfpConnection

if TYPE_CHECKING:
    from qcnn.pipelines.compiler import PipelineTarget


class KubeflowBound(ClusterTarget[KfpConnection, P_contra], Compiles):
    """Base class of the parts of the target kubeflow."""

    @functools.cached_property
    def backend(self) -> KfpBackend:
        """The KFP backend."""
        return self._open(contextlib.closing(KfpBackend(self.connection)))

    @override
    @classmethod
    def pipeline_target(cls) -> PipelineTarget:
        from qcnn.pipelines.kubeflow import KUBEFLOW

        return KUBEFLOW
