"""What the targets on Vertex AI share: their clients, location and prices."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from qcnn.targets.base import Compiles, IsChecked, Prepares
from qcnn.targets.bound import BoundTarget
from qcnn.targets.checks import Check
from qcnn.targets.output_check import output_checks
from qcnn.targets.settings import CheckSettings, setting
from qcnn.targets.vertex.checks import vertex_checks
from qcnn.targets.vertex.client import Connection, VertexClient

if TYPE_CHECKING:
    from qcnn.costs.platforms import PricingPlatform
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.pipelines.compiler import PipelineTarget


@dataclasses.dataclass(frozen=True, kw_only=True)
class VertexCheckSettings(Connection, CheckSettings):
    """Settings of the checks of a project."""

    service_account: str | None = setting("Google service account of the steps to check.", None, metavar="NAME")


class VertexBound(BoundTarget[Connection], Prepares, IsChecked[VertexCheckSettings]):
    """Base class of a target on Vertex AI, or of a part of it."""

    title: ClassVar[str] = "Vertex AI"
    extra: ClassVar[str] = "vertex"
    connection_settings: ClassVar[type[Connection]] = Connection
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    check_settings: ClassVar[type[VertexCheckSettings]] = VertexCheckSettings

    @functools.cached_property
    def vertex(self) -> VertexClient:
        """The clients of the location."""
        return self._open(contextlib.closing(VertexClient(self.connection.place)))

    @override
    def place(self) -> str:
        return self.connection.place.title

    @override
    def checks(self, settings: VertexCheckSettings) -> Sequence[Check]:
        account, output = settings.service_account or "", settings.output or ""
        return (*vertex_checks(self.vertex, self.connection, account, output), *output_checks(settings))

    @override
    @classmethod
    def platform(cls, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        from qcnn.costs.platforms import on_vertex

        return on_vertex(pod, prices, machine_type)


class VertexPipelines(VertexBound, Compiles):
    """Base class of the parts of the target vertex."""

    @override
    @classmethod
    def pipeline_target(cls) -> PipelineTarget:
        from qcnn.pipelines.vertex import VERTEX

        return VERTEX
