"""Settings of infra/settings.yaml, and a fake cloud."""

from pathlib import Path

import pytest

from infra.__main__ import resources
from infra.commands import InfraResource
from infra.settings import InfraSettings, read_settings
from tests.infra.fake_cloud import FakeCloud

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings() -> InfraSettings:
    return read_settings(ROOT / "infra" / "settings.yaml")


@pytest.fixture
def with_gpus(settings: InfraSettings) -> InfraSettings:
    """Return the settings with a node pool with GPUs, which the file does not have."""
    return settings.model_copy(update={"accelerator": "nvidia-l4", "gpus_per_node": 2, "num_gpu_nodes": 3})


@pytest.fixture
def table(settings: InfraSettings) -> tuple[InfraResource, ...]:
    return resources(settings)


@pytest.fixture
def cloud(tmp_path: Path) -> FakeCloud:
    return FakeCloud(tmp_path / "cloud.json")
