"""Promotions of versions: when a label moves, and the errors of versions that cannot be compared."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from qcnn.data import FeatureLayout, generators, sample_fresh
from qcnn.errors import ArtifactError, ConfigError, WriteError
from qcnn.registry.address import open_registry
from qcnn.registry.gate import GateSettings, check_comparable, check_label, promote
from qcnn.registry.interface import Registry
from qcnn.registry.registration import register
from tests.qcnn.registry.models import BEST, write_rows, write_run


@pytest.fixture(autouse=True)
def fresh_samples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of fresh samples, which is smaller than that of users to save time."""
    count = getattr(request, "param", 500)
    monkeypatch.setattr(generators, "FRESH_SAMPLES", count)
    return count


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with contextlib.closing(open_registry(str(tmp_path / "models"))) as opened:
        yield opened


def _add(registry: Registry, folder: Path, *factors: float, **options: object) -> int:
    run = write_run(folder, *factors, **options)  # type: ignore[arg-type]
    return register(registry, str(run.folder), "cluster").version


def test_first_version_is_promoted(registry: Registry, tmp_path: Path) -> None:
    _add(registry, tmp_path / "a", 0.5)
    result = promote(registry, "cluster")
    assert (result.outcome, result.version, result.previous) == ("first", 1, None)
    assert registry.labels("cluster").versions == {"champion": 1}
    assert promote(registry, "cluster").outcome == "unchanged"
    assert [each.comparison for each in registry.promotions("cluster")] == [None]


@pytest.mark.parametrize("fresh_samples", [10_000], indirect=True)
def test_better_version_is_promoted_on_fresh_samples(registry: Registry, tmp_path: Path) -> None:
    for name, factor in {"a": 0.5, "b": BEST}.items():
        _add(registry, tmp_path / name, factor)
        result = promote(registry, "cluster")
    assert (result.outcome, result.version, result.previous) == ("better", 2, 1)
    found = result.comparison
    assert found
    assert (found.rows, found.source, found.probability, found.metric) == (10_000, "fresh samples", 1.0, "loss")
    samples = sample_fresh(4, 0)
    for value, factor in ((found.candidate, BEST), (found.champion, 0.5)):
        error = factor * np.cos(samples.angle.astype(np.float64)) - samples.label
        assert value == pytest.approx(np.mean(error**2), rel=1e-12)
    assert found.low < found.candidate - found.champion < found.high < 0
    assert registry.labels("cluster").versions == {"champion": 2}
    assert registry.promotions("cluster")[-1].comparison == found


@pytest.mark.parametrize("factor", [0.5, 0.25])
def test_version_that_is_not_better_stays(registry: Registry, tmp_path: Path, factor: float) -> None:
    """Equal predictions are not better, either."""
    _add(registry, tmp_path / "a", 0.5)
    promote(registry, "cluster")
    _add(registry, tmp_path / "b", factor, fields={"seed": 1})
    result = promote(registry, "cluster")
    assert (result.outcome, result.is_promoted) == ("rejected", False)
    assert registry.labels("cluster").versions == {"champion": 1}
    assert len(registry.promotions("cluster")) == 1
    forced = promote(registry, "cluster", force=True)
    assert (forced.outcome, forced.comparison) == ("forced", result.comparison)
    record = registry.promotions("cluster")[-1]
    assert (record.forced, record.version, record.previous, record.comparison) == (True, 2, 1, result.comparison)
    # Roll back.
    assert promote(registry, "cluster", version=1, force=factor == 0.5).version == 1


def test_direction_of_metric_is_that_of_its_table(registry: Registry, tmp_path: Path) -> None:
    """A model with the larger loss has the higher accuracy."""
    _add(registry, tmp_path / "a", 1.0, 0.5)
    promote(registry, "cluster")
    _add(registry, tmp_path / "b", 0.1)
    by_loss, by_accuracy = (
        promote(registry, "cluster", settings=GateSettings(metric=metric)) for metric in ("mse", "accuracy")
    )
    assert (by_loss.outcome, by_accuracy.outcome) == ("rejected", "better")
    assert by_accuracy.comparison
    assert by_accuracy.comparison.candidate == 1.0 > by_accuracy.comparison.champion
    assert 0 < by_accuracy.comparison.low < by_accuracy.comparison.high
    with pytest.raises(ConfigError, match=r"^metric: must be one of loss, mse, accuracy for this model\. Given: 'f1'$"):
        promote(registry, "cluster", version=1, settings=GateSettings(metric="f1"))


def test_rows_known_to_champion_are_left_out(registry: Registry, tmp_path: Path) -> None:
    """The data of the second run are those of the first and new ones, of which the test rows are new or known."""
    few, more = write_rows(tmp_path / "few.csv", 400), write_rows(tmp_path / "more.csv", 1000)
    assert more.read_text().startswith(few.read_text()[:1000])
    # With the same seed, no test row would be in the other splits of a part of the file.
    for name, path, factor, seed in (("a", few, 0.5, 0), ("b", more, BEST, 1)):
        _add(registry, tmp_path / name, factor, fields={"rounds": 0, "data": str(path), "seed": seed})
        result = promote(registry, "cluster")
    assert result.comparison
    assert result.comparison.source == "test rows of version 2"
    lines = [line.split(",") for line in more.read_text().splitlines()[1:]]
    seen = _angles(tmp_path / "a" / "generate-data", ("train", "validation"))
    test = _angles(tmp_path / "b" / "generate-data", ("test",))
    assert result.comparison.rows == len(test - seen) < len(test) == 150
    label = {np.float32(float(angle)): float(label) for _, angle, label in lines}
    errors = [(BEST * np.cos(float(angle)) - label[angle]) ** 2 for angle in test - seen]
    # The file has the angles as float64.
    assert result.comparison.candidate == pytest.approx(np.mean(errors), abs=1e-6)


def _angles(folder: Path, splits: tuple[str, ...]) -> set[np.float32]:
    with np.load(folder / "dataset" / "dataset.npz") as arrays:
        return {np.float32(angle) for split in splits for angle in arrays[f"{split}_angle"]}


def test_too_few_rows_are_rejected(registry: Registry, tmp_path: Path) -> None:
    """Both runs have the same rows and seed, so all 60 test rows are new to the first run."""
    path = write_rows(tmp_path / "rows.csv", 400)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        factor = 0.5 if name == "a" else BEST
        _add(registry, tmp_path / name, factor, fields={"rounds": 0, "data": str(path), "seed": seed})
        if name == "c":
            with pytest.raises(ArtifactError, match=r"^rows: must be at least 50 test rows of version 3 .* of 60$"):
                promote(registry, "cluster")
            result = promote(registry, "cluster", force=True)
            assert (result.outcome, result.comparison) == ("forced", None)
            assert registry.promotions("cluster")[-1].note.startswith("rows: must be at least 50 test rows")
        else:
            result = promote(registry, "cluster")
            assert result.version == registry.labels("cluster").versions["champion"]
            assert result.comparison is None or result.comparison.rows == 60


def test_rows_of_file_are_used(registry: Registry, tmp_path: Path) -> None:
    for name, factor in {"a": 0.5, "b": BEST}.items():
        _add(registry, tmp_path / name, factor)
        if name == "a":
            promote(registry, "cluster")
    path = write_rows(tmp_path / "rows.csv", 300, seed=5)
    result = promote(registry, "cluster", settings=GateSettings(data=str(path)))
    assert result.comparison
    rows = [[float(value) for value in line.split(",")] for line in path.read_text().splitlines()[1:]]
    angle = np.array([row[1] for row in rows], np.float32).astype(np.float64)
    label = np.array([row[2] for row in rows])
    assert result.comparison.candidate == pytest.approx(np.mean((BEST * np.cos(angle) - label) ** 2), rel=1e-12)
    assert (result.comparison.rows, result.comparison.source) == (300, f"rows of {path}")
    of_run = write_run(tmp_path / "c", 0.0, fields={"rounds": 0, "data": str(path)})
    version = register(registry, str(of_run.folder), "cluster").version
    known = promote(registry, "cluster", version=version, settings=GateSettings(data=str(path))).comparison
    assert known
    # 70 % of the rows for training and 15 % for validation.
    assert known.source == f"rows of {path} (255 known to version 3)"
    few = write_rows(tmp_path / "few.csv", 49)
    for name, line in {
        str(few): r"^data: must have at least 50 rows for a comparison\. Given: 49 in ",
        str(tmp_path / "none.csv"): r"^data: cannot be read \(file not found\)",
    }.items():
        with pytest.raises(ArtifactError, match=line):
            promote(registry, "cluster", version=1, settings=GateSettings(data=name))


def test_other_data_is_one_line(registry: Registry, tmp_path: Path) -> None:
    _add(registry, tmp_path / "a", 0.5)
    promote(registry, "cluster")
    _add(registry, tmp_path / "b", BEST, fields={"options": {"loss": "cross_entropy"}, "model": "deep"})
    with pytest.raises(ConfigError, match=r"^model: must predict the labels of version 1, -1 and \+1\. Given: classes"):
        promote(registry, "cluster")


@pytest.mark.parametrize(
    ("candidate", "champion", "qubits", "line"),
    [
        (
            FeatureLayout(),
            FeatureLayout(),
            (4, 5),
            "model: must have the qubits of version 1, 5. Given: 4 in version 2",
        ),
        (
            FeatureLayout(labels="real"),
            FeatureLayout(labels="zero_one"),
            (4, 4),
            "model: must predict the labels of version 1, 0 and 1. Given: real numbers in version 2",
        ),
        (
            FeatureLayout(labels="classes", classes=("a", "b")),
            FeatureLayout(labels="classes", classes=("b", "a")),
            (4, 4),
            "model: must predict the labels of version 1, classes b, a. Given: classes a, b in version 2",
        ),
    ],
)
def test_versions_of_other_data_are_not_comparable(
    candidate: FeatureLayout, champion: FeatureLayout, qubits: tuple[int, int], line: str
) -> None:
    with pytest.raises(ConfigError) as error:
        check_comparable(candidate, champion, (2, 1), qubits)
    assert str(error.value) == line
    check_comparable(candidate, candidate, (2, 1), (4, 4))


def test_damaged_champion_is_one_line(registry: Registry, tmp_path: Path) -> None:
    for name, factor in {"a": 0.5, "b": BEST}.items():
        _add(registry, tmp_path / name, factor)
        if name == "a":
            promote(registry, "cluster")
    (tmp_path / "models" / "cluster" / "1" / "predictor.json").write_text("{}")
    with pytest.raises(
        ArtifactError, match=r"^version: must be one that can be loaded \(model: predictor\.json is dam"
    ):
        promote(registry, "cluster")
    assert promote(registry, "cluster", force=True).outcome == "forced"


def test_damaged_first_version_is_not_promoted(registry: Registry, tmp_path: Path) -> None:
    _add(registry, tmp_path / "a", 0.5)
    (tmp_path / "models" / "cluster" / "1" / "predictor.json").write_text("{}")
    with pytest.raises(
        ArtifactError, match=r"^version: must be one that can be loaded \(model: predictor\.json is dam"
    ):
        promote(registry, "cluster")
    assert registry.labels("cluster").versions == {}


def test_missing_champion_is_one_line(registry: Registry, tmp_path: Path) -> None:
    _add(registry, tmp_path / "a", 0.5)
    (tmp_path / "models" / "cluster" / "labels.json").write_text('{"champion": 7}')
    with pytest.raises(
        ArtifactError, match=r"^version: must be one that can be loaded .* Given: version 7 of cluster$"
    ):
        promote(registry, "cluster")


def test_predictions_that_are_not_finite_are_one_line(registry: Registry, tmp_path: Path) -> None:
    for name, factor in {"a": 0.5, "b": 1e200}.items():
        _add(registry, tmp_path / name, factor)
        if name == "a":
            promote(registry, "cluster")
    with pytest.raises(ArtifactError, match=r"^metric: loss must be finite for each row\. Given: inf for row 1$"):
        promote(registry, "cluster")


def test_other_label_does_not_stop_promotion(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves another label between the read and the write."""
    _add(registry, tmp_path / "a", 0.5)
    moves, labels = list[object](), tmp_path / "models" / "cluster" / "labels.json"
    original = registry.move

    def move(*arguments: object) -> bool:
        if not moves:
            labels.write_text(json.dumps({"canary": 1}))
        moves.append(arguments)
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "move", move)
    assert promote(registry, "cluster").outcome == "first"
    assert (len(moves), registry.labels("cluster").versions) == (2, {"canary": 1, "champion": 1})
    assert len(registry.promotions("cluster")) == 1


def test_label_moved_in_the_meantime_is_one_line(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        _add(registry, tmp_path / name, 0.5, fields={"seed": ord(name)})
    original = registry.move

    def move(*arguments: object) -> bool:
        (tmp_path / "models" / "cluster" / "labels.json").write_text(json.dumps({"champion": 1}))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "move", move)
    line = (
        r"^label: champion of cluster was moved by another process to version 1; promote again to compare with it\. "
        r"Given: version 2$"
    )
    with pytest.raises(WriteError, match=line):
        promote(registry, "cluster")
    assert promote(registry, "cluster", version=1).outcome == "unchanged"
    assert registry.promotions("cluster") == []


@pytest.mark.parametrize("confidence", [0.4999, 1.0, float("nan"), -1.0])
def test_invalid_confidence_raises(confidence: float) -> None:
    with pytest.raises(ConfigError, match=r"^confidence: must be at least 0\.5 and less than 1\. Given: "):
        GateSettings(confidence)


@pytest.mark.parametrize("label", ["7", "", "a b", "é", "../x"])
def test_invalid_label_raises(label: str) -> None:
    with pytest.raises(ConfigError, match=r"^label: must "):
        check_label(label)
