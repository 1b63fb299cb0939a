"""A strategy is one entry of a table, and is refused in one line where the machine has not what it needs."""

from typing import Any

import pytest
import tensorflow as tf

from qcnn.trainer.config import ExperimentConfig, from_mapping
from qcnn.trainer.distribution import needs
from qcnn.trainer.distribution.creation import STRATEGIES, create_strategy
from qcnn.trainer.distribution.roles import Cluster
from qcnn.trainer.errors import ConfigError


def _config(strategy: str, **options: Any) -> ExperimentConfig:
    return from_mapping({"strategy": strategy, "workers": 1, "options": options})


def test_every_strategy_that_an_experiment_can_ask_for_is_created() -> None:
    assert set(STRATEGIES) == set(needs.STRATEGIES)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mirrored", tf.distribute.MirroredStrategy),
        ("central_storage", tf.distribute.experimental.CentralStorageStrategy),
        ("none", tf.distribute.Strategy),
    ],
)
def test_a_process_of_its_own_has_one_replica(name: str, kind: type[tf.distribute.Strategy]) -> None:
    strategy = create_strategy(_config(name), None)
    assert isinstance(strategy, kind)
    assert strategy.num_replicas_in_sync == 1


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_config("mirrored", reduction="nccl"), "reduction: this machine has no GPU. Given: nccl"),
        (_config("multi_worker", communication="nccl"), "communication: this machine has no GPU. Given: nccl"),
        (
            _config("mirrored", reduction="hierarchical_copy"),
            "reduction: hierarchical_copy adds up over pairs of devices. Given: 1 devices here",
        ),
        (_config("tpu"), "strategy: no TPU is found from here .*Given: tpu"),
    ],
)
def test_what_the_machine_lacks_is_said_in_one_line(config: ExperimentConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        create_strategy(config, None)
    assert "\n" not in str(error.value)


def test_an_entry_is_all_that_a_strategy_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Cluster | None] = []

    def mine(_: ExperimentConfig, cluster: Cluster | None) -> tf.distribute.Strategy:
        asked.append(cluster)
        return tf.distribute.get_strategy()

    monkeypatch.setitem(STRATEGIES, "none", mine)
    cluster = Cluster({"worker": ("127.0.0.1:2222",)}, "worker", 0)
    assert create_strategy(_config("none"), cluster) is tf.distribute.get_strategy()
    assert asked == [cluster]
