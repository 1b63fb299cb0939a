"""Estimates that are logged before the first epoch."""

from typing import Any

import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.planning.training_estimate import (
    TrainingEstimate,
    break_even_workers,
    expectation,
    format_duration,
    strategy_does_not_pay,
)
from qcnn.simulators.structure.gates import read_model


def expected(ran: str, **words: Any) -> TrainingEstimate:
    config = from_mapping({"workers": 1, "strategy": "none", "rounds": 20, "batch_size": 32, "epochs": 50, **words})
    _, network = read_model(config.model, config.qubits)
    return expectation(config, network, ran, config.epochs)


@pytest.mark.parametrize(
    ("simulator", "words", "lower", "upper"),
    [
        # Half and twice the seconds measured on two idle cores: 0.0046, 0.013 and 0.022.
        ("statevector", {"qubits": 8}, 0.0023, 0.0092),
        ("lightcone", {"qubits": 23, "rounds": 43}, 0.0065, 0.026),
        ("lightcone", {"qubits": 1024, "rounds": 1}, 0.011, 0.044),
        ("statevector", {"qubits": 16, "rounds": 10, "model": "deep"}, 0.2, 2),
    ],
)
def test_expectation_is_near_benchmarks(simulator: str, words: dict[str, Any], lower: float, upper: float) -> None:
    assert lower < expected(simulator, **words).epoch_seconds < upper


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
        # No hint for a run that takes only seconds.
        ("tfq", {"qubits": 8, "simulator": "tfq", "epochs": 2}, None),
    ],
)
def test_expectation_hints_at_faster_field(simulator: str, words: dict[str, Any], faster: str | None) -> None:
    found = expected(simulator, **words)
    assert (f"{found.faster.field} {found.faster.value}" if found.faster else None) == faster
    lines = list(found.lines(50))
    assert len(lines) == (2 if faster else 1)
    if found.faster:
        assert found.faster.epoch_seconds * 2 <= found.epoch_seconds
        assert str(faster) in lines[1]
        assert ("fewer updates" in lines[1]) == (found.faster.field == "batch_size")


def test_lines_have_seconds_and_memory() -> None:
    lines = TrainingEstimate(0.0584, 360 * 1024, None).lines(50)
    assert list(lines) == [
        "expected on two cores: about 0.058 s an epoch, 3.4 s for 50 once compiled; 360 KiB for states"
    ]


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        ({"strategy": "multi_worker", "workers": 2}, 2),
        ({"strategy": "parameter_server", "workers": 2, "ps": 1}, 4),
    ],
    ids=["workers", "roles"],
)
def test_lines_have_number_of_processes(words: dict[str, Any], processes: int) -> None:
    (line, *_) = expected("lightcone", qubits=12, **words).lines(50)
    assert line.startswith(f"expected on two cores for each of {processes} processes: about ")


@pytest.mark.parametrize("batch", [32, 256])
def test_expectation_sharded_by_qubit_reduces_time_and_memory(batch: int) -> None:
    words = {"qubits": 16, "model": "deep", "rounds": 500, "batch_size": batch, "strategy": "multi_worker"}
    one, two, four = (expected("statevector", **words, workers=workers) for workers in (1, 2, 4))
    assert one.epoch_seconds > 1.7 * two.epoch_seconds
    assert one.epoch_seconds > 3 * four.epoch_seconds
    # The workers have 17, 9 and 5 states.
    assert (two.memory / one.memory, four.memory / one.memory) == (9 / 17, 5 / 17)


def test_lines_warn_of_more_workers_than_qubits() -> None:
    words = {"qubits": 16, "model": "deep", "rounds": 22, "batch_size": 256, "strategy": "multi_worker", "epochs": 999}
    assert list(expected("statevector", **words, workers=16).lines(999))[1:] == []
    assert list(expected("statevector", **words, workers=32).lines(999))[1:] == ["more than 16 workers do not pay"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [({1: 1.0, 2: 1.1}, 1), ({1: 1.0, 2: 0.97}, 1), ({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.39}, 4)]
)
def test_break_even_workers_requires_minimum_gain(seconds: dict[int, float], expected: int) -> None:
    assert break_even_workers(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
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
def test_format_duration_has_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("strategy", "seconds", "message"),
    [
        ("mirrored", 0.1, "strategy mirrored does not pay here: none takes about 0.1 s an epoch"),
        ("parameter_server", 0.098, "strategy parameter_server does not pay here: none takes about 0.1 s an epoch"),
        ("parameter_server", 0.05, None),
        ("none", 0.1, None),
        # `worker_limit_message` covers this strategy.
        ("multi_worker", 0.2, None),
    ],
)
def test_strategy_does_not_pay_warns_if_not_faster(strategy: str, seconds: float, message: str | None) -> None:
    assert strategy_does_not_pay(strategy, seconds, alone=0.1) == message
