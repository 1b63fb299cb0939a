"""Sharded weights on parameter servers: atomic updates, damping by staleness, and servers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn.errors import RetryableError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.optimizer import _OPTIMIZERS, build_optimizer, values_of
from qcnn.trainer.distribution.parameter_servers import _DAMPING, SharedWeights, serve
from qcnn.trainer.distribution.roles import ClusterConfig

HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
VALUES = (np.array([1.0, -2.0, 0.5]), np.array([[3.0], [-1.0]]))
UPDATES = 4


def _config(optimizer: str) -> ExperimentConfig:
    return from_mapping({"optimizer": optimizer, "learning_rate": 0.1})


def _gradients(values: list[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.sin(each) for each in values]


class Weights:
    """Variables and optimizer of a model, with a copy on parameter servers."""

    def __init__(self, optimizer: str, servers: int) -> None:
        config = _config(optimizer)
        self.variables = [tf.Variable(value) for value in VALUES]
        self.optimizer = build_optimizer(config, UPDATES)
        self.optimizer.build(self.variables)
        self.shared = SharedWeights([HERE] * servers, 5, lambda: build_optimizer(config, UPDATES))
        # Traced once for all updates.
        self._update = tf.function(self._updated, autograph=False)

    @property
    def values(self) -> list[npt.NDArray[Any]]:
        return [*values_of(self.variables), *values_of(self.optimizer.variables)]

    def push(self) -> None:
        self.shared.push(values_of(self.variables), values_of(self.optimizer.variables))

    def pull(self) -> None:
        self.shared.pull(self.variables, self.optimizer.variables)

    def update_shared(self, behind: int = 0) -> int:
        """Update like a worker that read the weights `behind` updates ago, and return the reported staleness."""
        return int(self._update(tf.constant(behind, tf.int64)))

    def _updated(self, behind: tf.Tensor) -> tf.Tensor:
        flat, version = self.shared.read()
        return self.shared.update(tf.sin(flat), version - behind)


@pytest.mark.parametrize("servers", [1, 2, 5, 7])
@pytest.mark.parametrize("optimizer", _OPTIMIZERS)
def test_shared_weights_sequential_updates_equal_optimizer(optimizer: str, servers: int) -> None:
    shared, alone = Weights(optimizer, servers), Weights(optimizer, 1)
    for number in range(UPDATES):
        # Push and pull between updates, as at the end of an epoch, must not change results.
        shared.push()
        assert shared.update_shared() == 0
        shared.pull()
        gradients = _gradients([variable.read_value() for variable in alone.variables])
        alone.optimizer.apply_gradients(zip(gradients, alone.variables, strict=True))
        for values, expected in zip(shared.values, alone.values, strict=True):
            np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=f"update {number}")


def test_shared_weights_damp_stale_updates() -> None:
    moves = []
    for behind in (0, 1, 3):
        weights = Weights("sgd", 2)
        weights.push()
        assert weights.update_shared(behind) == behind
        weights.pull()
        moves.append(weights.variables[0].numpy() - VALUES[0])
    np.testing.assert_allclose(moves[1], moves[0] / (1 + _DAMPING))
    np.testing.assert_allclose(moves[2], moves[0] / (1 + 3 * _DAMPING))


def test_shared_weights_concurrent_updates_are_atomic() -> None:
    weights = Weights("sgd", 2)
    weights.push()

    @tf.function(autograph=False)
    def updates() -> tf.Tensor:
        def one(_: tf.Tensor) -> tf.Tensor:
            flat, version = weights.shared.read()
            return weights.shared.update(tf.ones_like(flat), version)

        return tf.map_fn(one, tf.range(200), parallel_iterations=8, fn_output_signature=tf.int64)

    behind = updates().numpy()
    weights.pull()
    assert int(weights.optimizer.iterations) == 200
    # The learning rate is zero after the updates of the schedule, so only the first updates change the weights.
    assert np.all(weights.variables[0].numpy() < VALUES[0])
    assert behind.min() >= 0


def test_serve_ends_with_chief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server succeeds if training is complete, and otherwise fails with a retryable error."""
    cluster = ClusterConfig({"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",), "ps": ("127.0.0.1:3",)}, "ps", 0)
    monkeypatch.setattr("qcnn.trainer.distribution.parameter_servers.tf.distribute.Server", lambda *_, **__: None)
    monkeypatch.setattr("qcnn.trainer.distribution.parameter_servers._CHECK_SECONDS", 0.0)
    # The chief starts late, is busy once, and ends.
    checks = [False, False, True, True, False, True, *[False] * 3]
    answers: list[bool] = []
    monkeypatch.setattr("qcnn.trainer.distribution.parameter_servers.answers", lambda *_: answers.pop(0))
    answers += checks
    serve(cluster, lambda: not answers, 60.0)
    answers += checks
    with pytest.raises(RetryableError, match=r"^lost chief 0$"):
        serve(cluster, lambda: False, 60.0)
    assert not answers
    # Training is complete before the server starts.
    answers += [False]
    serve(cluster, lambda: True, 60.0)


def test_serve_without_chief_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.trainer.distribution.joining.START_TIMEOUT_SECONDS", 0.1)
    cluster = ClusterConfig({"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",), "ps": ("127.0.0.1:3",)}, "ps", 0)
    monkeypatch.setattr("qcnn.trainer.distribution.parameter_servers.tf.distribute.Server", lambda *_, **__: None)
    monkeypatch.setattr("qcnn.trainer.distribution.parameter_servers._CHECK_SECONDS", 0.0)
    message = r"^lost chief 0 \(no answer at 127\.0\.0\.1:1\), after 0\.1 s of waiting$"
    with pytest.raises(RetryableError, match=message):
        serve(cluster, lambda: False, 0.05)
