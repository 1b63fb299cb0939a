"""A strategy is one entry of a table."""

from typing import get_args

import pytest
import tensorflow as tf

from trainer.config import EXPERIMENT_FIELDS
from trainer.training.roles import Cluster
from trainer.training.strategies import STRATEGIES, create_strategy


def test_the_table_names_the_strategies_that_an_experiment_can_ask_for() -> None:
    assert set(STRATEGIES) == set(get_args(EXPERIMENT_FIELDS["strategy"].annotation))


@pytest.mark.parametrize(
    ("name", "kind"), [("mirrored", tf.distribute.MirroredStrategy), ("none", tf.distribute.Strategy)]
)
def test_a_process_of_its_own_has_one_replica(name: str, kind: type[tf.distribute.Strategy]) -> None:
    strategy = create_strategy(name, None)
    assert isinstance(strategy, kind)
    assert strategy.num_replicas_in_sync == 1


def test_an_entry_is_all_that_a_strategy_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Cluster | None] = []

    def mine(cluster: Cluster | None) -> tf.distribute.Strategy:
        asked.append(cluster)
        return tf.distribute.get_strategy()

    monkeypatch.setitem(STRATEGIES, "mine", mine)
    cluster = Cluster({"worker": ("127.0.0.1:2222",)}, "worker", 0)
    assert create_strategy("mine", cluster) is tf.distribute.get_strategy()
    assert asked == [cluster]
