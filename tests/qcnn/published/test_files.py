"""Files of published experiments: all fields, circuits, datasets and published values are valid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import qcnn.published
from qcnn.circuits import circuits
from qcnn.datasets.options import parse_options
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import from_mapping
from qcnn.yaml_files import read_file

FOLDER = Path(qcnn.published.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
# Keys of a study file and of its rows, next to fields of the experiment.
_STUDY, _ROW = ("repeat", "datasets", "rows"), ("name", "published", "differences")
_PUBLISHED = {"value", "source", "metric", "spread", "spread_is", "runs", "rows"}


def _rows(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the fields of each row with those that all rows share, and its other entries."""
    study = read_file(FOLDER / f"{name}.yaml")
    shared = {key: value for key, value in study.items() if key not in _STUDY}
    return [
        (
            {**shared, **{key: value for key, value in row.items() if key not in _ROW}},
            {key: row[key] for key in _ROW if key in row},
        )
        for row in study["rows"]
    ]


@pytest.mark.parametrize("name", FILES)
def test_first_line_describes_the_file(name: str) -> None:
    first = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").partition("\n")[0]
    assert first.startswith("# ")
    assert first.endswith(".")


@pytest.mark.parametrize("name", FILES)
def test_rows_are_experiments_with_existing_circuits(name: str) -> None:
    study = read_file(FOLDER / f"{name}.yaml")
    for fields, entries in _rows(name):
        # A dataset becomes a file when the study runs.
        if fields.get("data") in study.get("datasets", {}):
            fields["data"] = "rows.parquet"
        # Evaluation reads it, not the experiment.
        config = from_mapping({key: value for key, value in fields.items() if key in ALL_FIELDS})
        assert set(fields) - set(ALL_FIELDS) <= {"baseline"}, entries
        assert circuits.build(config.model, config.qubits).readouts


@pytest.mark.parametrize("name", FILES)
def test_datasets_have_valid_options_and_are_used(name: str) -> None:
    study = read_file(FOLDER / f"{name}.yaml")
    datasets: Mapping[str, dict[str, Any]] = study.get("datasets", {})
    for options in datasets.values():
        given = {**options, "source": "images"} if "mnist" in options["name"] else dict(options)
        # Another table for each seed of the study.
        if given.get("seed") == "trial":
            given.pop("seed")
        parse_options(given.pop("name"), **given)
    used = {fields.get("data", "excitations") for fields, _ in _rows(name)}
    assert set(datasets) <= used


@pytest.mark.parametrize("name", FILES)
def test_published_values_have_a_source_and_their_spread(name: str) -> None:
    names = []
    for _, entries in _rows(name):
        names.append(entries["name"])
        published = entries.get("published")
        if published is None:
            continue
        assert {"value", "source"} <= set(published) <= _PUBLISHED
        assert ("spread" in published) == ("spread_is" in published)
        assert "spread" not in published or published["runs"] > 1
        if published.get("metric", "accuracy") == "accuracy":
            assert 0 <= published["value"] <= 1
    assert len(set(names)) == len(names)
