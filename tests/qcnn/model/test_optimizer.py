"""Learning rate schedules, and optimizers that use them."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
import tf_keras

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.optimizer import WarmupSchedule, assign, build_optimizer, values_of

CONSTANT = {"learning_rate_schedule": "constant", "warmup_fraction": 0.0}
Values: TypeAlias = tuple[npt.NDArray[Any], ...]
VALUES: Values = (np.array([1.0, 2.0]), np.array([[3.0]]))


def _config(**options: Any) -> ExperimentConfig:
    return from_mapping({"learning_rate": 0.08, "options": options})


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        # 1,000 updates: warmup over 100, then half a period of the cosine over 900.
        (
            {"learning_rate_schedule": "cosine", "warmup_fraction": 0.1},
            {0: 0.0008, 49: 0.04, 99: 0.08, 100: 0.08, 400: 0.06, 550: 0.04, 1000: 0.0, 2000: 0.0},
        ),
        (
            {"learning_rate_schedule": "cosine", "warmup_fraction": 0.0},
            {0: 0.08, 500: 0.04, 750: 0.04 * (1 + math.cos(0.75 * math.pi))},
        ),
        (
            {"learning_rate_schedule": "constant", "warmup_fraction": 0.1},
            {0: 0.0008, 99: 0.08, 100: 0.08, 999: 0.08, 5000: 0.08},
        ),
        ({"learning_rate_schedule": "constant", "warmup_fraction": 0.0}, {0: 0.08, 1: 0.08, 999: 0.08}),
    ],
)
def test_warmup_schedule_returns_expected_rates(options: dict[str, Any], rates: dict[int, float]) -> None:
    schedule = WarmupSchedule(_config(**options), 1000)
    assert {step: float(schedule(tf.constant(step))) for step in rates} == pytest.approx(rates, abs=1e-8)


def test_warmup_schedule_set_reuses_compiled_program() -> None:
    schedule = WarmupSchedule(_config(learning_rate_schedule="constant", warmup_fraction=0.0), 10)
    compiled = tf.function(schedule, jit_compile=True)
    assert compiled(tf.constant(3)).numpy() == pytest.approx(0.08)
    schedule.set(
        from_mapping({"learning_rate": 0.5, "options": {"learning_rate_schedule": "cosine", "warmup_fraction": 0.0}}), 4
    )
    assert compiled(tf.constant(2)).numpy() == pytest.approx(0.25)
    assert compiled.experimental_get_tracing_count() == 1


def test_nadam_compiled_and_resumed_equals_keras() -> None:
    config = from_mapping({"optimizer": "nadam", "learning_rate": 0.1, "options": CONSTANT})
    # Without compilation, Keras' Nadam updates the momentum product correctly.
    expected, _ = _after(tf_keras.optimizers.Nadam(0.1, jit_compile=False), 6, compiled=False)
    first, state = _after(build_optimizer(config, updates=6), 3, compiled=True)
    resumed, _ = _after(build_optimizer(config, updates=6), 3, compiled=True, variables=first, state=state)
    for values, expected_values in zip(resumed, expected, strict=True):
        np.testing.assert_allclose(values, expected_values, rtol=1e-12)


def test_nesterov_equals_its_formula() -> None:
    config = from_mapping({"optimizer": "nesterov", "momentum": 0.8, "learning_rate": 0.1, "options": CONSTANT})
    found, _ = _after(build_optimizer(config, updates=4), 4, compiled=True)
    # Keras (tf_keras 2.21, optimizers/sgd.py): the step of the velocity after the next one.
    values, velocity = np.concatenate([each.ravel() for each in VALUES]), 0.0
    for _ in range(4):
        velocity = 0.8 * velocity - 0.1 * np.sin(values)
        values = values + 0.8 * velocity - 0.1 * np.sin(values)
    np.testing.assert_allclose(np.concatenate([each.ravel() for each in found]), values, rtol=1e-6)


def _after(
    optimizer: tf_keras.optimizers.Optimizer,
    updates: int,
    *,
    compiled: bool,
    variables: Values = VALUES,
    state: Values | None = None,
) -> tuple[Values, Values]:
    """Return variables and optimizer state after `updates` updates, with gradients sin(variable)."""
    trained = [tf.Variable(value, dtype=tf.float64) for value in variables]
    optimizer.build(trained)
    if state:
        assign(optimizer.variables, state)

    def update() -> None:
        for _ in tf.range(updates) if compiled else range(updates):
            optimizer.apply_gradients([(tf.sin(variable), variable) for variable in trained])

    (tf.function(update) if compiled else update)()
    return values_of(trained), values_of(optimizer.variables)


def test_optimizer_uses_scheduled_rate() -> None:
    config = from_mapping({"optimizer": "sgd", "learning_rate": 0.1, "options": {"warmup_fraction": 0.0}})
    optimizer, variable = build_optimizer(config, updates=4), tf.Variable(0.0, dtype=tf.float64)
    optimizer.build([variable])
    values = []
    for _ in range(5):
        optimizer.apply_gradients([(tf.constant(-1.0, tf.float64), variable)])
        values.append(variable.numpy())
    rates = [0.05 * (1 + math.cos(math.pi * step / 4)) for step in range(5)]
    np.testing.assert_allclose(values, np.cumsum(rates), rtol=1e-6)
