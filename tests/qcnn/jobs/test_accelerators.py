"""One word for an accelerator on every platform."""

import pytest

from qcnn.jobs.accelerators import ACCELERATORS, on_vertex


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_vertex_knows_every_accelerator(accelerator: str) -> None:
    from qcnn.jobs.vertex.client.library import aiplatform

    assert on_vertex(accelerator) in aiplatform.AcceleratorType.__members__
