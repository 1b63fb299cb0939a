"""What trials of a tuner must share."""

from typing import Any

import pytest

from qcnn.trainer.errors import ConfigError
from qcnn.trainer.study.search import Range, search_from_mapping
from qcnn.trainer.study.tuning import shared_experiment, whole_bounds

_RATES = {"learning_rate": [0.001, 0.1, "log"]}


def test_the_data_of_one_trial_are_those_of_all() -> None:
    search = search_from_mapping({"range": _RATES, "grid": {"model": ["hybrid", "deep"]}, "random": 5.0})
    shared = shared_experiment({"qubits": 4, "rounds": 20, "seed": 7}, search)
    assert (shared.qubits, shared.rounds, shared.seed, shared.model) == (4, 20, 7, "hybrid")


@pytest.mark.parametrize(
    ("base", "search", "said"),
    [
        ({}, {"range": _RATES}, r"random: must say how many trials the tuner may choose\. Given: none"),
        ({}, {"grid": {"hidden_units": [4, 8]}}, r"random: must say how many trials the tuner may choose\."),
        ({}, {"range": {"qubits": [4, 8]}, "random": 3}, r"qubits: must be the same in all trials of a tuner, .*"),
        ({}, {"grid": {"seed": [1, 2]}, "random": 3}, r"seed: must be the same in all trials .* Given: \[1, 2\]"),
        ({}, {"grid": {"workers": [2, 4]}, "random": 3}, r"workers: must be the same in all trials .* Given: \[2, 4\]"),
        # The rule for rounds depends on the model.
        ({"qubits": 4}, {"grid": {"model": ["hybrid", "deep"]}, "random": 3}, r"rounds: must be the same in all .*"),
        ({}, {"range": {"hidden_units": [0, 8]}, "random": 3}, r"hidden_units: must be an integer, at least 1.*"),
    ],
)
def test_what_a_tuner_cannot_search_is_one_line(base: dict[str, Any], search: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{said}"):
        shared_experiment(base, search_from_mapping(search))


def test_a_range_of_whole_numbers_ends_with_some() -> None:
    assert whole_bounds("hidden_units", Range(1.5, 8.9)) == (2, 8)
    assert whole_bounds("learning_rate", Range(0.15, 0.89)) == (0.15, 0.89)
