"""Validation of combinations of fields, roles and strategies."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping

MULTI, PS = "multi_worker", "parameter_server"


def _fields(strategy: str, workers: int, **options: Any) -> dict[str, Any]:
    return {"strategy": strategy, "workers": workers, "options": options}


@pytest.mark.parametrize(
    ("fields", "replicas", "replicas_in_sync"),
    [
        (_fields("none", 1), {"worker": 1}, 1),
        (_fields("tpu", 1), {"worker": 1}, 1),
        (_fields("mirrored", 1), {"worker": 1}, 1),
        (_fields("mirrored", 1, devices=4), {"worker": 1}, 4),
        (_fields("central_storage", 1, devices=3), {"worker": 1}, 3),
        (_fields(MULTI, 1), {"worker": 1}, 1),
        (_fields(MULTI, 3), {"worker": 3}, 3),
        (_fields(MULTI, 1, chief=1), {"chief": 1}, 1),
        (_fields(MULTI, 3, chief=1), {"chief": 1, "worker": 2}, 3),
        (_fields(MULTI, 3, chief=1, evaluator=1), {"chief": 1, "worker": 2, "evaluator": 1}, 3),
        (_fields(PS, 1), {"chief": 1, "worker": 1, "ps": 1}, 1),
        (_fields(PS, 4, ps=2, evaluator=1), {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1}, 1),
    ],
)
def test_replicas_by_role_and_in_sync(fields: dict[str, Any], replicas: dict[str, int], replicas_in_sync: int) -> None:
    config = from_mapping(fields)
    assert (config.replicas, config.num_replicas_in_sync) == (replicas, replicas_in_sync)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            _fields("none", 2),
            "workers: must be 1 with strategy none; several workers require strategy multi_worker or ",
        ),
        (_fields("mirrored", 2), "workers: must be 1 with strategy mirrored"),
        (_fields(MULTI, 2, chief=2), "chief: must be an integer, at least 0 and at most 1. Given: 2"),
        (_fields("none", 1, chief=1), "chief: requires strategy multi_worker. Given: 1 with strategy none"),
        # parameter_server always has a chief.
        (_fields(PS, 2, chief=1), "chief: requires strategy multi_worker"),
        (_fields(MULTI, 2, ps=1), "ps: requires strategy parameter_server. Given: 1 with strategy multi_worker"),
        (_fields(MULTI, 2, devices=2), "devices: requires strategy mirrored or central_storage"),
        (_fields("central_storage", 1, reduction="nccl"), "reduction: requires strategy mirrored"),
        (_fields("mirrored", 1, communication="ring"), "communication: requires strategy multi_worker"),
        (_fields(PS, 1, communication_timeout=1.0), "communication_timeout: requires strategy multi_worker"),
        (_fields("none", 1, evaluator=1), "evaluator: requires several training processes"),
        (_fields(MULTI, 1, evaluator=1), "evaluator: requires several training processes"),
        (_fields("mirrored", 1, devices=3, reduction="hierarchical_copy"), "devices: must be an even number with"),
        (
            {**_fields("tpu", 1), "simulator": "tfq"},
            "simulator: must be auto, .* density with strategy tpu",
        ),
        (
            {**_fields(PS, 1), "simulator": "tfq"},
            "simulator: must be auto, .* density with strategy",
        ),
        ({**_fields("mirrored", 1, devices=8), "batch_size": 4}, r"batch_size: must be at least devices \(8\)"),
        ({**_fields(MULTI, 8), "batch_size": 4}, r"batch_size: must be at least workers \(8\)"),
        (_fields(MULTI, 2, visible_gpus="0,"), "visible_gpus: must be indices such as 0 or 0,1"),
        (_fields(MULTI, 2, gpu_memory="0"), "gpu_memory: must be growth, a number of GiB greater than 0"),
    ],
)
def test_incompatible_fields_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        from_mapping(fields)
    assert "\n" not in str(error.value)
    assert "Given: " in str(error.value)


def test_parameter_server_batch_may_be_below_workers() -> None:
    assert from_mapping({**_fields(PS, 8), "batch_size": 4}).batch_size == 4
