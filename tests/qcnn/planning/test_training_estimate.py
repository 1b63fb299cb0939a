"""What is said before the first epoch, from counts alone."""

from typing import Any

import pytest

from qcnn.experiment_io import from_mapping
from qcnn.planning.training_estimate import (
    TrainingEstimate,
    expectation,
    format_duration,
    paying_workers,
    strategy_does_not_pay,
)
from qcnn.simulators.structure.gates import read_model


def expected(ran: str, **words: Any) -> TrainingEstimate:
    config = from_mapping({"workers": 1, "strategy": "none", "rounds": 20, "batch_size": 32, "epochs": 50, **words})
    _, network = read_model(config.model, config.qubits)
    return expectation(config, network, ran, config.epochs)


@pytest.mark.parametrize(
    ("simulator", "words", "least", "most"),
    [
        # What docs/benchmarks.md quotes, and what checkpoint and events add to it.
        ("statevector", {"qubits": 8}, 0.04, 0.1),
        ("lightcone", {"qubits": 23, "rounds": 43}, 0.05, 0.15),
        ("lightcone", {"qubits": 1024, "rounds": 1}, 0.05, 0.15),
        ("statevector", {"qubits": 16, "rounds": 10, "model": "deep"}, 0.2, 2),
    ],
)
def test_seconds_are_about_what_is_measured(simulator: str, words: dict[str, Any], least: float, most: float) -> None:
    assert least < expected(simulator, **words).epoch_seconds < most


@pytest.mark.parametrize(
    ("simulator", "words", "faster"),
    [
        ("statevector", {"qubits": 8}, None),
        ("tfq", {"qubits": 16, "simulator": "tfq"}, "simulator auto"),
        ("statevector", {"qubits": 20, "simulator": "statevector"}, "simulator auto"),
        ("lightcone", {"qubits": 12, "rounds": 1000, "workers": 2, "strategy": "multi_worker"}, "workers 1"),
        (
            "lightcone",
            {"qubits": 12, "rounds": 1000, "workers": 2, "strategy": "parameter_server"},
            "strategy none",
        ),
        ("lightcone", {"qubits": 23, "rounds": 40_000}, "batch_size 512"),
        # Nobody needs to be told where all of it takes seconds.
        ("tfq", {"qubits": 8, "simulator": "tfq", "epochs": 2}, None),
    ],
)
def test_a_word_that_would_make_it_much_faster_is_named(
    simulator: str, words: dict[str, Any], faster: str | None
) -> None:
    found = expected(simulator, **words)
    assert (f"{found.faster.word} {found.faster.value}" if found.faster else None) == faster
    lines = list(found.lines(50))
    assert len(lines) == (2 if faster else 1)
    if found.faster:
        assert found.faster.epoch_seconds * 2 <= found.epoch_seconds
        assert str(faster) in lines[1]
        assert ("fewer updates" in lines[1]) == (found.faster.word == "batch_size")


def test_what_is_said_is_seconds_and_memory() -> None:
    said = TrainingEstimate(0.0584, 360 * 1024, None).lines(50)
    assert list(said) == [
        "expected on two cores: about 0.058 s an epoch, 2.9 s for 50 once compiled; 360 KiB for states"
    ]


def test_what_is_said_is_said_of_all_processes() -> None:
    words = {"qubits": 12, "strategy": "multi_worker", "workers": 2}
    (line, *_) = expected("lightcone", **words).lines(50)
    assert line.startswith("expected on two cores for each of 2 processes: about ")


@pytest.mark.parametrize("batch", [32, 256])
def test_workers_that_share_the_qubits_need_less_time_and_memory(batch: int) -> None:
    words = {"qubits": 16, "model": "deep", "rounds": 500, "batch_size": batch, "strategy": "multi_worker"}
    one, two, four = (expected("statevector", **words, workers=workers) for workers in (1, 2, 4))
    assert one.epoch_seconds > 1.7 * two.epoch_seconds
    assert one.epoch_seconds > 3 * four.epoch_seconds
    # 17 states, 9 and 5.
    assert (two.memory / one.memory, four.memory / one.memory) == (9 / 17, 5 / 17)


def test_more_workers_than_qubits_to_share_are_told_to_be_too_many() -> None:
    words = {"qubits": 16, "model": "deep", "rounds": 22, "batch_size": 256, "strategy": "multi_worker", "epochs": 999}
    assert list(expected("statevector", **words, workers=16).lines(999))[1:] == []
    assert list(expected("statevector", **words, workers=32).lines(999))[1:] == ["more than 16 workers do not pay"]


@pytest.mark.parametrize(
    ("seconds", "paying"), [({1: 1.0, 2: 1.1}, 1), ({1: 1.0, 2: 0.97}, 1), ({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.39}, 4)]
)
def test_workers_pay_that_make_an_epoch_much_shorter(seconds: dict[int, float], paying: int) -> None:
    assert paying_workers(seconds) == paying


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0123, "0.012 s"),
        (9.96, "10 s"),
        (75, "75 s"),
        (150, "2.5 min"),
        (5000, "83 min"),
        (7300, "2 h"),
        (1e6, "12 days"),
    ],
)
def test_durations_are_said_in_words(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("strategy", "seconds", "said"),
    [
        ("mirrored", 0.1, "strategy mirrored does not pay here: none takes about 0.1 s an epoch"),
        ("parameter_server", 0.098, "strategy parameter_server does not pay here: none takes about 0.1 s an epoch"),
        ("parameter_server", 0.05, None),
        ("none", 0.1, None),
        # From where on more workers do not pay is said of it.
        ("multi_worker", 0.2, None),
    ],
)
def test_a_strategy_that_does_not_pay_is_named(strategy: str, seconds: float, said: str | None) -> None:
    assert strategy_does_not_pay(strategy, seconds, alone=0.1) == said
