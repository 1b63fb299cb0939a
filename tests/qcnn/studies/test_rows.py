"""Rows of study files, and the trials that repeat them."""

from typing import Any

import pytest

from qcnn.circuits.formats.embedded import is_embedded, model_display_name
from qcnn.errors import ConfigError
from qcnn.studies.rows import RepeatedRows, parse_rows, repeated_rows, with_embedded_circuits
from qcnn.studies.trials import plan, search_from_mapping

PUBLISHED = {"value": 0.9, "source": "a table"}
ROWS: list[dict[str, Any]] = [
    {"model": "deep", "name": "first", "published": PUBLISHED, "differences": ["fewer rows"]},
    {"learning_rate": 0.1, "patience": 2},
]


def test_each_row_has_the_same_seeds_in_order() -> None:
    search = search_from_mapping({"rows": ROWS, "repeat": 3})
    trials = plan({"qubits": 4, "seed": 7, "model": "hybrid"}, search)
    assert [(trial.model, trial.learning_rate, trial.options.patience, trial.seed) for trial in trials] == [
        *(("deep", trials[0].learning_rate, 0, seed) for seed in (7, 8, 9)),
        *(("hybrid", 0.1, 2, seed) for seed in (7, 8, 9)),
    ]
    repeated = repeated_rows(search.rows, search.repeat, len(trials))
    assert repeated
    assert [list(repeated.trials_of(row)) for row in (0, 1)] == [[0, 1, 2], [3, 4, 5]]
    assert RepeatedRows.from_mapping(repeated.to_mapping()) == repeated


def test_repeated_combinations_of_a_grid_are_rows() -> None:
    search = search_from_mapping({"grid": {"learning_rate": [0.1, 0.2]}, "repeat": 2})
    trials = plan({"qubits": 4, "seed": 2**32 - 1}, search)
    assert [(trial.learning_rate, trial.seed) for trial in trials] == [
        *((0.1, 2**32 - 1), (0.1, 0)),
        *((0.2, 2**32 - 1), (0.2, 0)),
    ]
    repeated = repeated_rows(search.rows, search.repeat, len(trials))
    assert repeated
    assert (len(repeated.rows), repeated.repeat) == (2, 2)


def test_seed_in_path_is_that_of_the_trial() -> None:
    search = search_from_mapping({"rows": [{"data": "rows-{seed}.csv", "encoding": "ry"}], "repeat": 2})
    assert [trial.data for trial in plan({"qubits": 4, "seed": 3}, search)] == ["rows-3.csv", "rows-4.csv"]


def test_study_without_rows_or_repeat_has_a_seed_for_each_trial() -> None:
    search = search_from_mapping({"grid": {"learning_rate": [0.1, 0.2]}})
    assert [trial.seed for trial in plan({"qubits": 4}, search)] == [0, 1]
    assert repeated_rows(search.rows, search.repeat, 2) is None


def test_circuits_of_the_package_are_embedded_with_their_names() -> None:
    (row,) = with_embedded_circuits({"qubits": 8}, parse_rows([{"model": "qcnn.published.hur:qcnn_su4"}]))
    assert is_embedded(row.fields["model"])
    assert model_display_name(row.fields["model"]).startswith("qcnn_su4.json@")
    assert with_embedded_circuits({"qubits": 8}, [row]) == (row,)
    assert with_embedded_circuits({}, parse_rows([{"model": "deep"}]))[0].fields == {"model": "deep"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"rows": "first"}, "rows: must be a list of mappings of fields to values. Given: 'first'"),
        ({"rows": ["first"]}, "rows: must be a list of mappings of fields to values. Given: ['first']"),
        (
            {"rows": [{}, {"momentums": 3}]},
            "rows: row 1: momentums: must be a field of the experiment, name, published or differences. Given: 3",
        ),
        ({"rows": [{"name": 3}]}, "rows: row 0: name: must be a text. Given: 3"),
        (
            {"rows": [{"differences": "data"}]},
            "rows: row 0: differences: must be a list of up to 20 texts. Given: 'data'",
        ),
        (
            {"rows": [{"published": {"value": "x", "source": "a"}}]},
            "rows: row 0: published: value must be a number. Given: 'x'",
        ),
        ({"rows": ROWS, "grid": {"qubits": [4]}}, "rows: must not be given with grid, range or random. Given: both"),
        ({"rows": ROWS, "repeat": 1000}, "study: must have at least 1 and at most 1000 trials. Given: 2000"),
        ({"rows": ROWS, "repeat": -1}, "repeat: must be 1 to 1000, or 0 for none. Given: -1"),
        ({"rows": ROWS, "repeat": 1.5}, "repeat: must be an integer. Given: 1.5"),
        (
            {"rows": [{"seed": 3}]},
            "seed: must not be searched with rows or repeat, which count it up. Given: seed",
        ),
        (
            {"grid": {"seed": [1, 2]}, "repeat": 2},
            "seed: must not be searched with rows or repeat, which count it up. Given: seed",
        ),
        ({"rows": [{"qubits": 3}]}, "qubits: must be at least 4 with hybrid. Given: 3"),
    ],
)
def test_invalid_rows_are_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        plan({}, search_from_mapping(given))
    assert str(raised.value) == line
