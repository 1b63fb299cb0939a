"""The learning rate of every update, and that an optimizer follows it."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer.config import ExperimentConfig, from_mapping
from trainer.training.optimizer import Schedule, build_optimizer


def _config(**options: Any) -> ExperimentConfig:
    return from_mapping({"learning_rate": 0.08, "options": options})


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        # 1,000 updates, of which 100 rise; then half a period of the cosine over 900.
        (
            {"schedule": "cosine", "warmup": 0.1},
            {0: 0.0008, 49: 0.04, 99: 0.08, 100: 0.08, 400: 0.06, 550: 0.04, 1000: 0.0, 2000: 0.0},
        ),
        ({"schedule": "cosine", "warmup": 0.0}, {0: 0.08, 500: 0.04, 750: 0.04 * (1 + math.cos(0.75 * math.pi))}),
        ({"schedule": "constant", "warmup": 0.1}, {0: 0.0008, 99: 0.08, 100: 0.08, 999: 0.08, 5000: 0.08}),
        ({"schedule": "constant", "warmup": 0.0}, {0: 0.08, 1: 0.08, 999: 0.08}),
    ],
)
def test_the_rate_at_chosen_updates(options: dict[str, Any], rates: dict[int, float]) -> None:
    schedule = Schedule(_config(**options), 1000)
    assert {step: float(schedule(tf.constant(step))) for step in rates} == pytest.approx(rates, abs=1e-8)


def test_a_compiled_program_serves_other_numbers() -> None:
    schedule = Schedule(_config(schedule="constant", warmup=0.0), 10)
    compiled = tf.function(schedule, jit_compile=True)
    assert compiled(tf.constant(3)).numpy() == pytest.approx(0.08)
    schedule.set(from_mapping({"learning_rate": 0.5, "options": {"schedule": "cosine", "warmup": 0.0}}), 4)
    assert compiled(tf.constant(2)).numpy() == pytest.approx(0.25)
    assert compiled.experimental_get_tracing_count() == 1


def test_an_optimizer_takes_the_rate_of_each_update() -> None:
    config = from_mapping({"optimizer": "sgd", "learning_rate": 0.1, "options": {"warmup": 0.0}})
    optimizer, variable = build_optimizer(config, updates=4), tf.Variable(0.0, dtype=tf.float64)
    optimizer.build([variable])
    values = []
    for _ in range(5):
        optimizer.apply_gradients([(tf.constant(-1.0, tf.float64), variable)])
        values.append(variable.numpy())
    rates = [0.05 * (1 + math.cos(math.pi * step / 4)) for step in range(5)]
    np.testing.assert_allclose(values, np.cumsum(rates), rtol=1e-6)
