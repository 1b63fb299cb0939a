import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcnn import data
from qcnn.artifact_io import load_description, save_description
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.parsing import from_mapping

CONFIG = from_mapping({"qubits": 5, "rounds": 40, "seed": 3})


def test_generate_same_seed_gives_equal_bytes(tmp_path: Path) -> None:
    dataset = data.generate(from_mapping({"rounds": 20}))
    # Digest of the first released format. A change makes published datasets unreproducible.
    assert dataset.digest == "c93bada14b801d73537fa68c0f066db189161ba17dc851577cbc41cef86ab134"
    for name in ("first", "second"):
        data.save(data.generate(CONFIG), tmp_path / name)
    for file in ("dataset.npz", "dataset.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_generate_for_classical_models_needs_two_classes() -> None:
    fields = {"qubits": 4, "rounds": 1, "train_fraction": 0.25, "validation_fraction": 0.25, "workers": 1, "seed": 1}
    data.generate(from_mapping({**fields, "strategy": "none"}))
    config = from_mapping({**fields, "strategy": "none", "baseline": 1})
    with pytest.raises(ConfigError, match=r"^baseline: must be 0 unless .*two classes; increase rounds. Given: 1 with"):
        data.generate(config)


def test_generate_other_seed_gives_other_samples() -> None:
    digests = {data.generate(from_mapping({"seed": seed})).digest for seed in range(5)}
    assert len(digests) == 5


def test_generate_excites_every_qubit_once_per_round() -> None:
    dataset = data.generate(CONFIG)
    qubits = np.concatenate([samples.qubit for _, samples in dataset.splits()])
    assert np.bincount(qubits).tolist() == [40] * 5


def test_excitations_have_uniform_angles_and_tutorial_labels() -> None:
    samples = data.sample_excitations(10, 10_000, seed=1)
    assert samples.angle.dtype == np.float32
    assert samples.angle.min() >= np.float32(-np.pi)
    assert samples.angle.max() < np.float32(np.pi)
    counts, _ = np.histogram(samples.angle, bins=8, range=(-np.pi, np.pi))
    np.testing.assert_allclose(counts, 12_500, rtol=0.05)
    assert np.array_equal(samples.label, np.where(np.abs(samples.angle) <= np.pi / 2, 1, -1))


@pytest.mark.parametrize("qubits", [4, 8, 32_768])
def test_fresh_samples_have_same_distribution_but_differ(qubits: int) -> None:
    fresh = data.sample_fresh(qubits, seed=3)
    assert len(fresh) == 10_000
    assert (fresh.qubit.min() >= 0, fresh.qubit.max() < qubits) == (True, True)
    counts, _ = np.histogram(fresh.qubit, bins=4, range=(0, qubits))
    np.testing.assert_allclose(counts, 2500, rtol=0.1)
    counts, _ = np.histogram(fresh.angle, bins=8, range=(-np.pi, np.pi))
    np.testing.assert_allclose(counts, 1250, rtol=0.15)
    assert np.array_equal(fresh.label, data.label_of(fresh.angle))
    assert np.array_equal(fresh.angle, data.sample_fresh(qubits, seed=3).angle)
    # float32 has few values in this range, so a few angles coincide by chance.
    assert np.isin(fresh.angle, data.sample_excitations(8, 1250, seed=3).angle).mean() < 0.01
    assert not np.array_equal(fresh.angle, data.sample_fresh(qubits, seed=4).angle)


def test_load_returns_saved_dataset(tmp_path: Path) -> None:
    dataset = data.generate(CONFIG)
    data.save(dataset, tmp_path / "dataset")
    loaded = data.load(tmp_path / "dataset")
    assert loaded.digest == dataset.digest
    assert (loaded.qubits, loaded.rounds, loaded.seed) == (5, 40, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_save_existing_folder_raises(tmp_path: Path) -> None:
    dataset = data.generate(CONFIG)
    data.save(dataset, tmp_path / "dataset")
    with pytest.raises(ArtifactError, match=r"must be new or empty. Given: "):
        data.save(dataset, tmp_path / "dataset")


def test_epoch_order_is_new_permutation_per_epoch() -> None:
    orders = [data.epoch_order(7, epoch, 97) for epoch in (1, 2, 1)]
    assert all(sorted(order) == list(range(97)) for order in orders)
    assert np.array_equal(orders[0], orders[2])
    assert not np.array_equal(orders[0], orders[1])


_SCALES: list[dict[str, Any]] = [{"factors": [0]}, {"factors": [math.inf]}, {"offsets": [math.nan]}, {"offsets": []}]


def _truncate(folder: Path) -> None:
    path = folder / "dataset.npz"
    path.write_bytes(path.read_bytes()[:-200])


def _describe(**values: Any) -> Callable[[Path], None]:
    """Return a function that changes values of dataset.json and updates its digest."""

    def change(folder: Path) -> None:
        path = folder / "dataset.json"
        save_description({**load_description("dataset", path), **values}, path)

    return change


def _scaled(**wrong: Any) -> Callable[[Path], None]:
    preparation = {"kind": "rx", "features": 5}
    return _describe(layout={"preparation": preparation, "features": ["x"], "offsets": [0], "factors": [1], **wrong})


def _change(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "dataset.json").read_text()
        assert old in text
        (folder / "dataset.json").write_text(text.replace(old, new))

    return change


def _drop_file_digests(folder: Path) -> None:
    """Write the description of an earlier version, which has no digest of dataset.npz."""
    description = load_description("dataset", folder / "dataset.json")
    del description["files"]
    save_description(description, folder / "dataset.json")


def _column(name: str, value: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        _drop_file_digests(folder)
        with np.load(folder / "dataset.npz") as arrays:
            columns = dict(arrays)
        columns[name][0] = value
        np.savez(folder / "dataset.npz", **columns)

    return change


def _encrypted(folder: Path) -> None:
    """Set the encryption bit of a member in the directory of the zip file."""
    _drop_file_digests(folder)
    path = folder / "dataset.npz"
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))


def test_load_without_digest_of_file_succeeds(tmp_path: Path) -> None:
    dataset = data.generate(CONFIG)
    data.save(dataset, tmp_path / "dataset")
    _drop_file_digests(tmp_path / "dataset")
    assert data.load(tmp_path / "dataset").digest == dataset.digest


def test_load_first_version_without_digest_succeeds(tmp_path: Path) -> None:
    dataset = data.generate(CONFIG)
    data.save(dataset, tmp_path / "dataset")
    path = tmp_path / "dataset" / "dataset.json"
    content = json.loads(path.read_text())
    first = {name: content[name] for name in ("qubits", "rounds", "seed", "split")}
    path.write_text(json.dumps({"schema_version": 1, **first}))
    assert data.load(tmp_path / "dataset").digest == dataset.digest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "dataset: dataset.npz is damaged .*: its sha256 is not that of dataset.json"),
        (lambda folder: (folder / "dataset.npz").unlink(), "dataset: dataset.npz is missing"),
        (lambda folder: (folder / "dataset.json").unlink(), "dataset: dataset.json is missing"),
        (lambda folder: (folder / "dataset.json").write_text("{"), "dataset: dataset.json is damaged"),
        (lambda folder: (folder / "dataset.json").write_text("[" * 10**5), "dataset: dataset.json is damaged"),
        (lambda folder: (folder / "dataset.json").write_text("[]"), "dataset: dataset.json is damaged"),
        (_describe(schema_version=3), r"dataset: schema_version must be one of \(1, 2\). Given: 3"),
        (_describe(schema_version=True), r"dataset: schema_version must be one of \(1, 2\). Given: True"),
        # Values that the arrays do not determine.
        (_change('"seed": 3', '"seed": 4'), r"dataset: dataset.json is damaged \(sha256 is not that of the content"),
        (_change('"rounds": 40', '"rounds": 41'), r"dataset: dataset.json is damaged \(sha256 is not that"),
        (_change('"qubits": 5', '"qubits": 6'), r"dataset: dataset.json is damaged \(sha256 is not that"),
        (_change('"train": 140', '"train": 141'), r"dataset: dataset.json is damaged \(sha256 is not that"),
        (_column("train_angle", 0.5), "dataset: dataset.npz is damaged: its digest is not that of dataset.json"),
        (_encrypted, "dataset: dataset.npz is damaged .*encrypted"),
        (_describe(qubits=4), r"dataset: train_qubit must be in 0..3. Given: 4"),
        *((_scaled(**wrong), r"dataset: dataset.json is damaged \(its layout is wrong: ") for wrong in _SCALES),
        (_describe(split={"train": 1}), "dataset: train must have 1 samples"),
        (_column("train_label", 2), r"dataset: train_label must be -1 or \+1. Given: 2"),
        (_column("test_label", 0), r"dataset: test_label must be -1 or \+1. Given: 0"),
        (_column("validation_angle", np.nan), r"dataset: validation_angle must be in \[-pi, pi\). Given: nan"),
        (_column("train_qubit", 5), r"dataset: train_qubit must be in 0..4. Given: 5"),
    ],
)
def test_load_damaged_folder_raises(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = tmp_path / "dataset"
    data.save(data.generate(CONFIG), folder)
    damage(folder)
    with pytest.raises(ArtifactError, match=f"^{message}") as error:
        data.load(folder)
    assert "Given: " in str(error.value)
    assert "\n" not in str(error.value)


def test_check_fits_other_qubits_raises() -> None:
    with pytest.raises(ArtifactError, match=r"must have 8 qubits.* Given: 5 qubits"):
        data.check_fits(data.generate(CONFIG), from_mapping({"qubits": 8}))
