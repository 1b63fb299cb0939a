"""Container image and resources of the steps."""

from typing import Any

import pytest

from qcnn.components.resources import DEFAULTS, IMAGE, StepResources, is_pinned, step_resources
from qcnn.errors import ConfigError


def test_is_pinned_requires_a_digest() -> None:
    assert is_pinned("registry.example/team/qcnn@sha256:" + 64 * "0")
    assert not is_pinned("registry.example/team/qcnn:1.0")
    assert not is_pinned(IMAGE)


def test_step_resources_override_defaults() -> None:
    found = step_resources({"evaluate": {"cpu": 2, "memory": "6Gi"}, "train": {"cpu": "50m"}})
    expected = {"evaluate": StepResources("2", "6Gi", "6Gi"), "train": StepResources("50m", "256Mi", "2Gi")}
    assert found == {**DEFAULTS, **expected}
    assert step_resources(None) == DEFAULTS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"evaluate": {"memory": "much"}}, "pod.steps.evaluate.memory: must be a quantity such as 2Gi. Given: 'much'"),
        ({"evaluate": {"cpu": True}}, "pod.steps.evaluate.cpu: must be a quantity such as 2 or 500m. Given: True"),
        ({"evaluate": {"gpus": 1}}, "pod.steps.evaluate.gpus: must be a mapping of steps to cpu and memory. Given: 1"),
        ({"evaluate": "2Gi"}, "pod.steps.evaluate: must be a mapping of steps to cpu and memory. Given: '2Gi'"),
        (["evaluate"], "pod.steps: must be a mapping of steps to cpu and memory. Given: ['evaluate']"),
        ({"evaluat": {}}, f"pod.steps.evaluat: unknown step; valid steps: {', '.join(DEFAULTS)}. Given: evaluat"),
    ],
)
def test_invalid_step_resources_are_a_single_line_error(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        step_resources(given)
    assert str(error.value) == message
