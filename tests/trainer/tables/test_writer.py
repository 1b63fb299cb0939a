"""Tables are written in pieces, as other libraries read them, and whole or not at all."""

import json
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcnn.trainer.errors import ArtifactError, ConfigError
from qcnn.trainer.tables.endings import ENDINGS
from qcnn.trainer.tables.writer import new_table
from tests.trainer.tables.test_reader import NUMBERS, read


def by_others(path: Path) -> pd.DataFrame:
    """Read a table as pandas does, or numpy."""
    match path.suffix:
        case ".csv":
            return pd.read_csv(path, float_precision="round_trip")
        case ".parquet":
            return pd.read_parquet(path)
        case ".jsonl":
            return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    with np.load(path) as arrays:
        return pd.DataFrame(dict(arrays))


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.tuples(NUMBERS, st.integers(-(2**31), 2**31 - 1)), min_size=1), min_size=1, max_size=3))
def test_every_number_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, ending: str, pieces: list[list[tuple[float, int]]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / f"data{ending}"
    with new_table(str(path)) as write:
        for piece in pieces:
            a, b = zip(*piece, strict=True)
            write({'a "1"': np.array(a), "b,\n": np.array(b, np.int32)})
    rows = [row for piece in pieces for row in piece]
    expected = {'a "1"': [a for a, _ in rows], "b,\n": [b for _, b in rows]}
    assert by_others(path).to_dict("list") == expected
    assert read(path) == expected


def test_floats_of_four_bytes_are_as_short_as_they_can_be(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    with new_table(str(path)) as write:
        write({"a": np.array([0.1, 1e20, -3], np.float32)})
    assert path.read_text() == '{"a": 0.1}\n{"a": 1e+20}\n{"a": -3}\n'


def test_equal_tables_are_equal_archives(tmp_path: Path) -> None:
    for name in ("one.npz", "other.npz"):
        with new_table(str(tmp_path / name)) as write:
            write({"a": np.arange(3)})
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert archive.testzip() is None


class StoppedError(Exception):
    """What happens in the midst of writing."""


def _stop(write: Callable[..., None]) -> None:
    write({"a": np.zeros(10)})
    raise StoppedError


def _fill(write: Callable[..., None]) -> None:
    for _ in range(200):
        write({"a": np.random.default_rng(0).random(10_000)})


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("ends", "error"), [(_stop, StoppedError), (_fill, ArtifactError)], ids=["stopped", "full"])
def test_what_is_not_written_to_its_end_is_not_there(
    tmp_path: Path, ending: str, ends: Callable[..., None], error: type[Exception]
) -> None:
    path = tmp_path / f"data{ending}"
    path.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        with pytest.raises(error) as raised, new_table(str(path)) as write:
            ends(write)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error is StoppedError or "at most 1000000 bytes" in str(raised.value)
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"before"]


def test_a_folder_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match=r"^output: cannot be written \("), new_table(f"{tmp_path}/file/a.csv"):
        pass
    (tmp_path / "folder.csv").mkdir()
    with (
        pytest.raises(ArtifactError, match=r"^output: cannot be written \(Is a directory\)"),
        new_table(f"{tmp_path}/folder.csv") as write,
    ):
        write({"a": np.zeros(1)})
    message = r"^output: must end in \.csv, \.parquet, \.npz or \.jsonl\. Given: a\.txt$"
    with pytest.raises(ConfigError, match=message), new_table("a.txt"):
        pass
