"""The trials of a study, and which is best."""

from typing import Any

from qcnn.trainer.config import ExperimentConfig, from_mapping
from qcnn.trainer.study.search import search_from_mapping
from qcnn.trainer.study.trials import Trial, best, plan
from qcnn.trainer.training.history import Epoch


def _plan(base: dict[str, Any], **search: Any) -> list[ExperimentConfig]:
    return plan(base, search_from_mapping(search))


def a_trial(val_loss: float, **words: Any) -> Trial:
    return Trial(from_mapping(words), 5, Epoch(4, 0.5, 0.75, val_loss, 0.5, 1.0), words.get("seed", 0) / 4 or None)


def test_a_grid_is_every_combination_each_with_a_seed_of_its_own() -> None:
    trials = _plan({"seed": 7, "epochs": 3}, grid={"model": ["hybrid", "deep"], "shots": [0, 10, 100]})
    assert [(trial.model, trial.options.shots) for trial in trials] == [
        (model, shots) for model in ("hybrid", "deep") for shots in (0, 10, 100)
    ]
    assert [trial.seed for trial in trials] == [7, 8, 9, 10, 11, 12]
    assert {trial.epochs for trial in trials} == {3}


def test_a_seed_that_is_searched_is_taken_as_it_is() -> None:
    trials = _plan({}, grid={"seed": [5], "learning_rate": [0.1, 0.2]})
    assert [trial.seed for trial in trials] == [5, 5]


def test_the_last_seed_is_followed_by_the_first() -> None:
    assert [trial.seed for trial in _plan({"seed": 2**32 - 1}, grid={"qubits": [8, 10]})] == [2**32 - 1, 0]


def test_a_pipelines_struct_has_doubles_for_integers() -> None:
    search = {"grid": {"qubits": [8.0]}, "range": {"epochs": [2.0, 4.0]}, "random": 3.0}
    for trial in _plan({"workers": 1.0}, **search):
        assert (trial.qubits, trial.workers) == (8, 1)
        assert trial.epochs in (2, 3, 4)


def test_the_best_has_the_lowest_validation_loss_the_first_of_equals() -> None:
    assert best([a_trial(0.3), a_trial(0.2), a_trial(0.2)]) == 1
