"""Which words, roles and strategies go together, before anything is started."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.experiment_io import from_mapping

MULTI, PS = "multi_worker", "parameter_server"


def _words(strategy: str, workers: int, **options: Any) -> dict[str, Any]:
    return {"strategy": strategy, "workers": workers, "options": options}


@pytest.mark.parametrize(
    ("words", "replicas", "shares"),
    [
        (_words("none", 1), {"worker": 1}, 1),
        (_words("tpu", 1), {"worker": 1}, 1),
        (_words("mirrored", 1), {"worker": 1}, 1),
        (_words("mirrored", 1, devices=4), {"worker": 1}, 4),
        (_words("central_storage", 1, devices=3), {"worker": 1}, 3),
        (_words(MULTI, 1), {"worker": 1}, 1),
        (_words(MULTI, 3), {"worker": 3}, 3),
        (_words(MULTI, 1, chief=1), {"chief": 1}, 1),
        (_words(MULTI, 3, chief=1), {"chief": 1, "worker": 2}, 3),
        (_words(MULTI, 3, chief=1, evaluator=1), {"chief": 1, "worker": 2, "evaluator": 1}, 3),
        (_words(PS, 1), {"chief": 1, "worker": 1, "ps": 1}, 1),
        (_words(PS, 4, ps=2, evaluator=1), {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1}, 1),
    ],
)
def test_the_processes_of_each_role_and_how_many_share_a_batch(
    words: dict[str, Any], replicas: dict[str, int], shares: int
) -> None:
    config = from_mapping(words)
    assert (config.replicas, config.num_replicas_in_sync) == (replicas, shares)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (_words("none", 2), "workers: must be 1 with strategy none; several workers require strategy multi_worker or "),
        (_words("mirrored", 2), "workers: must be 1 with strategy mirrored"),
        (_words(MULTI, 2, chief=2), "chief: must be an integer, at least 0 and at most 1. Given: 2"),
        (_words("none", 1, chief=1), "chief: requires strategy multi_worker. Given: 1 with strategy none"),
        # Its chief is always there.
        (_words(PS, 2, chief=1), "chief: requires strategy multi_worker"),
        (_words(MULTI, 2, ps=1), "ps: requires strategy parameter_server. Given: 1 with strategy multi_worker"),
        (_words(MULTI, 2, devices=2), "devices: requires strategy mirrored or central_storage"),
        (_words("central_storage", 1, reduction="nccl"), "reduction: requires strategy mirrored"),
        (_words("mirrored", 1, communication="ring"), "communication: requires strategy multi_worker"),
        (_words(PS, 1, communication_timeout=1.0), "communication_timeout: requires strategy multi_worker"),
        (_words("none", 1, evaluator=1), "evaluator: requires several training processes"),
        (_words(MULTI, 1, evaluator=1), "evaluator: requires several training processes"),
        (_words("mirrored", 1, devices=3, reduction="hierarchical_copy"), "devices: must be an even number with"),
        (
            {**_words("tpu", 1), "simulator": "tfq"},
            "simulator: must be auto, .* density with strategy tpu",
        ),
        (
            {**_words(PS, 1), "simulator": "tfq"},
            "simulator: must be auto, .* density with strategy",
        ),
        ({**_words("mirrored", 1, devices=8), "batch_size": 4}, r"batch_size: must be at least devices \(8\)"),
        ({**_words(MULTI, 8), "batch_size": 4}, r"batch_size: must be at least workers \(8\)"),
        (_words(MULTI, 2, visible_gpus="0,"), "visible_gpus: must be indices such as 0 or 0,1"),
        (_words(MULTI, 2, gpu_memory="0"), "gpu_memory: must be growth, a number of GiB greater than 0"),
    ],
)
def test_what_cannot_run_together_is_refused_in_one_line(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        from_mapping(words)
    assert "\n" not in str(error.value)
    assert "Given: " in str(error.value)


def test_workers_of_parameter_server_need_no_share_of_a_batch() -> None:
    assert from_mapping({**_words(PS, 8), "batch_size": 4}).batch_size == 4
