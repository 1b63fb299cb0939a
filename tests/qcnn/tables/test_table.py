"""Tables of four formats are read and written in chunks, with single-line errors that contain the row."""

import hashlib
import io
import json
import re
import resource
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from qcnn.errors import ArtifactError, ConfigError, QcnnError
from qcnn.tables import EXTENSIONS, chunks
from qcnn.tables.csv_file import CsvFile
from qcnn.tables.table import new_table, open_table

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def write(path: Path, frame: pd.DataFrame) -> None:
    """Write a table with pandas, or with NumPy for npz."""
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".parquet":
            frame.to_parquet(path, index=False)
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        case ".npz":
            columns: dict[str, Any] = {name: _plain(frame[name]) for name in frame}
            np.savez(path, **columns)


def _plain(column: "pd.Series[Any]") -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = column.to_numpy(str) if column.dtype == object else column.to_numpy()
    return values


def read(path: Path, names: Sequence[str] | None = None, text: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return all values of a table by column."""
    found: dict[str, list[Any]] = {}
    with open_table(str(path)) as table:
        for piece in table.pieces(names, text):
            for name, column in piece.columns.items():
                found.setdefault(name, []).extend(column.tolist())
    return found


def read_error(path: Path, names: Sequence[str] | None = None, text: Sequence[str] = ()) -> str:
    with pytest.raises(QcnnError) as refused:
        read(path, names, text)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 1300
    return message.replace(str(path), "FILE")


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_tables_of_pandas_and_numpy_are_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    frame = pd.DataFrame(
        {"qubit": [3, 0, 7], "angle": [0.1, -1.5, 1e-300], "split": ["train", "test", "train"], "sure": [True] * 3}
    )
    write(path, frame)
    with open_table(str(path)) as table:
        assert table.names == ("qubit", "angle", "split", "sure")
        assert table.rows == (3 if ending in (".parquet", ".npz") else None)
        (piece,) = table.pieces(["angle", "split", "qubit"], text=["split"])
        assert list(piece.columns) == ["angle", "split", "qubit"]
        assert piece.columns["angle"].dtype == piece.columns["qubit"].dtype == np.float64
    assert read(path, ["qubit", "angle"]) == {"qubit": [3, 0, 7], "angle": [0.1, -1.5, 1e-300]}
    assert read(path, ["split"], ["split"]) == {"split": ["train", "test", "train"]}


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_booleans_are_read_as_1_and_0(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, pd.DataFrame({"x": [0.5, 1.5, 2.5], "sure": [True, False, True]}))
    assert read(path) == {"x": [0.5, 1.5, 2.5], "sure": [1, 0, 1]}


def test_csv_booleans_are_case_insensitive(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,sure\n1,TRUE\n2, false\n3,1\n4,False\ntrue,0\n")
    assert read(path) == {"x": [1, 2, 3, 4, 1], "sure": [1, 0, 1, 0, 0]}
    path.write_text("x,sure\n1,yes\n")
    assert read_error(path) == "data: line 2, column sure: must be a finite number. Given: yes"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(NUMBERS, st.integers(-(2**40), 2**40)), min_size=1, max_size=20))
def test_numbers_are_read_exactly(tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float, int]]) -> None:
    frame = pd.DataFrame(values, columns=["a", "b"])
    # pandas rounds numbers in JSON, so JSONL is written with the json module below.
    for ending in (".csv", ".parquet", ".npz"):
        path = tmp_path_factory.mktemp("tables") / f"data{ending}"
        write(path, frame)
        assert read(path) == {"a": frame["a"].tolist(), "b": frame["b"].tolist()}
    path = path.with_suffix(".jsonl")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))
    assert read(path) == {"a": frame["a"].tolist(), "b": frame["b"].tolist()}


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_large_table_is_read_in_bounded_chunks(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    count = 3 * chunks.rows_per_chunk(1) // 2
    write(path, pd.DataFrame({"a": np.arange(count), "b": 0.5}))
    with open_table(str(path)) as table:
        first = 1
        for piece in table.pieces():
            assert piece.first == first
            assert len(piece) <= chunks.rows_per_chunk(2)
            assert piece.columns["a"][0] == first - 1
            first += len(piece)
    assert first == count + 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_matrix_becomes_numbered_columns(tmp_path: Path, order: Any) -> None:
    path = tmp_path / "data.npz"
    states = np.array([[0.6, 0.8, 0], [1, 0, 0]], np.float32, order=order)
    np.savez_compressed(path, state=states, label=np.array([1, -1], ">i2"))
    assert read(path, ["state_0", "label"]) == {"state_0": [pytest.approx(0.6), 1], "label": [1, -1]}
    assert list(read(path)) == ["state_0", "state_1", "state_2", "label"]


def test_npz_array_of_one_column_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.array([[0.5], [1.5]]), label=np.array([[1], [-1]]))
    assert read(path) == {"x": [0.5, 1.5], "label": [1, -1]}


def test_csv_spaces_around_names_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('a, b,"c ", note\n1, 2, 3, x\n4, 5, abc, y\n')
    assert read(path, ["note", "b"], ["note"]) == {"note": [" x", " y"], "b": [2, 5]}
    assert read_error(path, ["a", "c"]) == "data: line 3, column c: must be a finite number. Given: abc"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_dialects_are_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / "data.csv"
    lines = ['"a",b,note', '+1, 2 ,"of, two', 'lines"', "", '"3",4e0,', ""]
    path.write_text("\ufeff" + end.join(lines), newline="")
    assert read(path, ["a", "b"]) == {"a": [1, 3], "b": [2, 4]}
    with open_table(str(path)) as table:
        (piece,) = table.pieces(["b"])
        with pytest.raises(ArtifactError, match=r"^data: line 5, column b: must be less\. Given: 4$"):
            piece.check("b", piece.columns["b"] < 3, "must be less")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: must name the columns. Given: nothing"),
        ("a,b\n", "must hold at least one row. Given: FILE"),
        ("a,b", "must hold at least one row. Given: FILE"),
        ("a,b\n1,2\n1,abc\n", "line 3, column b: must be a finite number. Given: abc"),
        ("a,b\n1,2\n\n1,nan\n", "line 4, column b: must be a finite number. Given: nan"),
        ("a,b\n1,-inf\n", "line 2, column b: must be a finite number. Given: -inf"),
        ("a,b\n1,1e999\n", "line 2, column b: must be a finite number. Given: 1e999"),
        ("a,b\n1,2\n,2\n", "line 3, column a: must be a finite number. Given: nothing"),
        ("a,b\n1,1_0\n", "line 2, column b: must be a finite number. Given: 1_0"),
        ("a,b\n1,2,3\n", "line 2: must have 2 values, as many as the first line has names. Given: 3"),
        ('a,b\n1,"2\n3,4\n', "line 2: a quote must be closed. Given: a row up to the end of the file"),
        ('a,b\n1,2\n1,"', "line 3: a quote must be closed. Given: a row up to the end of the file"),
        ('a,b\n1,"2"\n"3",4\n5,6\n7,"8\n9,9\n', "line 5: a quote must be closed. Given: a row up"),
        ("a,a\n1,2\n", "column names must be unique. Given: a twice"),
        ("a, a\n1,2\n", "column names must be unique. Given: a twice"),
        ("sep=,\na,b\n1,2\n", "line 1: a separator declaration must be deleted. Given: sep=,"),
        (
            "sep=;\na;b\n1;2\n",
            "line 1: a separator declaration must be deleted, and ; replaced by commas. Given: sep=;",
        ),
        (",a\n0,1\n", "column 1 must have a name. Given: ['', 'a']"),
        ("a;b\n1;2\n", "column b is missing. Given: a;b in FILE"),
        ("a,b\xff\n1,2\n", r"column 2: must be text in UTF-8. Given: b\udcff"),
        ("a,b\n1,\xff\n", r"line 2, column b: must be a finite number. Given: \udcff"),
        ("a,b\n1," + "2" * 400 + "\n", "line 2, column b: must be a finite number. Given: 2222"),
    ],
)
def test_invalid_csv_is_rejected_with_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content.encode("latin-1"))
    assert read_error(path, ["b"] if "is missing" in message else None).startswith(f"data: {message}")


def test_open_quote_in_unread_column_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('a,note\n1,"x"\n2,"y\n3,z\n')
    assert read_error(path, ["a"]) == "data: line 3: a quote must be closed. Given: a row up to the end of the file"
    path.write_text('a,note\n1,x\n2,"\x1a"')
    assert read(path, text=["note"]) == {"a": [1, 2], "note": ["x", "\x1a"]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_jsonl_empty_lines_are_ignored(tmp_path: Path, end: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(f'{end}{{"a": 1}}{end} \t{end}{{"a": 2}}{end}{end}', newline="")
    assert read(path) == {"a": [1, 2]}


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_reading_can_stop_after_first_chunk(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, pd.DataFrame({"a": np.arange(2 * chunks.rows_per_chunk(1))}))
    with open_table(str(path)) as table:
        assert next(table.pieces()).first == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must hold at least one row. Given: FILE"),
        ('{"a": 1, "b": 2}\n\n{"a": 1}\n', "line 3, column b: must be a finite number. Given: nothing"),
        ('{"a": 1, "b": "2"}\n', "line 1, column b: must be a finite number. Given: '2'"),
        ('{"a": 1, "b": {"c": [2]}}\n', "line 1, column b: must be a finite number. Given: {'c': [2]}"),
        ('{"a": 1, "b": NaN}\n', "line 1, column b: must be a finite number. Given: nan"),
        ('{"a": 1, "b": "true"}\n', "line 1, column b: must be a finite number. Given: 'true'"),
        ('{"a": 1, "b": 1e999}\n', "line 1, column b: must be a finite number. Given: inf"),
        ('{"a": 1, "b": 1%s}\n' % ("0" * 400), "line 1, column b: must be a finite number. Given: an integer of"),
        ('{"a": 1, "b\\ud800": 2}\n', r"column 2: must be text in UTF-8. Given: b\ud800"),
        ('{"a": 1, "a": 2, "b": 2}\n', "line 1: must have unique keys. Given: {"),
        ('{"a": 1, "b": 2}\n[1, 2]\n', "line 2: must be one JSON object. Given: [1, 2]"),
        ('{"a": 1, "b": 2}\n{"a": 1, "b"\n', 'line 2: must be one JSON object. Given: {"a": 1, "b"'),
        ('{"a": 1, "b": %s\n' % ("[" * 100_000), "line 1: must be one JSON object. Given: {"),
        ('{"a": 1, "b": "\xff"}\n', "line 1: must be text in UTF-8. Given: {"),
        ('{"a": 1, "b": 2}\n{"a": 3, "b": 4}{"a": 5, "b": 6}\n', "line 2: must be one JSON object. Given: {"),
        ('{"a": 1, "b": 2}\n\n{"a": 3,\n"b": 4}\n', "line 3: must be one JSON object. Given: {"),
        ('{"a": 1, "b": 2}{"a": 1, "b": 2}\n\n', "line 1: must be one JSON object. Given: {"),
    ],
)
def test_invalid_jsonl_is_rejected_with_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content.encode("latin-1"))
    assert read_error(path, ["a", "b"] if content else None).startswith(f"data: {message}")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": [1, 2], "b": [0.5, None]}), "row 2, column b: must be a finite number. Given: nothing"),
        (pa.table({"a": [1, 2], "b": [np.inf, 0]}), "row 1, column b: must be a finite number. Given: inf"),
        (pa.table({"a": [1, 2], "b": ["1", "2"]}), "column b: must hold numbers. Given: string"),
        (pa.table({"a": [1, 2], "b": [[1], [2]]}), "column b: must hold numbers. Given: list<"),
        (pa.table([[1], [2]], ["a", "a"]), "column names must be unique. Given: a twice"),
        (pa.table({"a": pa.array([], pa.int8())}), "must hold at least one row. Given: FILE"),
    ],
    ids=range(6),
)
def test_invalid_parquet_is_rejected_with_row(tmp_path: Path, table: pa.Table, message: str) -> None:
    path = tmp_path / "data.parquet"
    parquet.write_table(table, path)
    assert read_error(path).startswith(f"data: {message}")


def test_parquet_with_high_compression_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"a": np.zeros(10**5)}), path, compression="zstd", use_dictionary=False)
    assert len(read(path)["a"]) == 10**5
    monkeypatch.setattr(chunks, "_MAX_UNPACKED", 2**19)
    assert re.fullmatch(
        r"data: column a: must not unpack to more than 100 times its size\. Given: \d+ bytes that unpack to \d+",
        read_error(path),
    )


def test_parquet_row_numbers_continue_across_groups(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"a": [1.0, 2.0, 3.0, np.nan]}), path, row_group_size=2)
    assert read_error(path) == "data: row 4, column a: must be a finite number. Given: nan"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.array([1, 2]), "b": np.array([0, np.nan])}, "row 2, column b: must be a finite number. Given: nan"),
        ({"a": np.array([1, 2]), "b": np.array([1])}, "all arrays must have the same number of rows. Given: [1, 2]"),
        ({"a": np.array([1, {}], object)}, "array a.npy must hold numbers. Given: object"),
        ({"a": np.array(["1e400"], np.longdouble)}, "row 1, column a: must be a finite number. Given: inf"),
        ({"a": np.array([1j])}, "array a.npy must hold numbers. Given: complex128"),
        ({"a": np.array(["1"])}, "array a.npy must hold numbers. Given: <U1"),
        ({"a": np.array(1)}, "array a.npy must have the shape (rows,) or (rows, k). Given: ()"),
        ({"a": np.zeros((2, 0))}, "array a.npy must have the shape (rows,) or (rows, k). Given: (2, 0)"),
        ({"a": np.zeros((2, 2)), "a_1": np.zeros(2)}, "column names must be unique. Given: a_1 twice"),
        ({}, "must hold at least one row. Given: FILE"),
    ],
    ids=range(10),
)
def test_invalid_npz_is_rejected_with_row(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    assert read_error(path).startswith(f"data: {message}")


def test_truncated_npz_array_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    for by_column, shape in ((False, (10**15,)), (True, (10**12, 3))):
        header = io.BytesIO()
        described = {"descr": "<f8", "fortran_order": by_column, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", header.getvalue() + bytes(2**20))
        assert read_error(path) == "data: is damaged (array a.npy ends too early). Given: FILE"


def test_npz_with_high_compression_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, a=np.asfortranarray(np.zeros((10**5, 2))))
    assert len(read(path)["a_0"]) == 10**5
    monkeypatch.setattr(chunks, "_MAX_UNPACKED", 2**19)
    assert re.fullmatch(
        r"data: array a\.npy must not unpack to more than 100 times its size\. "
        r"Given: \d+ bytes that unpack to \d+",
        read_error(path),
    )


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
@pytest.mark.parametrize("harm", [lambda old: old[: len(old) // 2], lambda old: old[:-8] + bytes(8), lambda _: b"PK"])
def test_damaged_file_is_rejected(tmp_path: Path, ending: str, harm: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"data{ending}"
    write(path, pd.DataFrame({"a": np.arange(100)}))
    path.write_bytes(harm(path.read_bytes()))
    assert read_error(path).startswith("data: is damaged (")


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_endless_line_is_rejected_in_bounded_memory(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    first = b"a\n1\n" if ending == ".csv" else b'{"a": 1}\n'
    for start, line in ((b"", 1), (first, first.count(b"\n") + 1)):
        with path.open("wb") as file:
            file.write(start)
            for _ in range(6):
                file.write(b"1" * 2**20)
        assert read_error(path, ["a"]).startswith(
            f"data: line {line}: must have at most 4194304 characters. Given: 111"
        )


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_invalid_row_after_long_value_is_rejected(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, pd.DataFrame({"a": ["1", "x"], "note": ["n" * 200_000, ""]}))
    place, value = ("line 3", "x") if ending == ".csv" else ("line 2", "'x'")
    if ending == ".jsonl":
        path.write_text(path.read_text().replace('"1"', "1"))
    assert read_error(path, ["a"]) == f"data: {place}, column a: must be a finite number. Given: {value}"


def test_parquet_page_with_wrong_checksum_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    with new_table(str(path)) as write_rows:
        write_rows({"a": (numbers := np.random.default_rng(0).random(1000))})
    content = path.read_bytes()
    place = content.index(numbers[500].tobytes())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert read_error(path).startswith("data: is damaged (")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_names_of_unread_columns_are_not_checked(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    # pandas writes an index without a name.
    frame = pd.DataFrame([[0, 1, 2, 3, "x"]], columns=["", "a", "b", "b", ""])
    if ending == ".csv":
        write(path, frame)
    else:
        parquet.write_table(pa.table([[value] for value in frame.loc[0]], list(frame.columns)), path)
    assert read(path, ["a"]) == {"a": [1]}
    assert read_error(path, ["b"]) == "data: column names must be unique. Given: b twice"


def test_folder_and_missing_file_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "data.csv").mkdir()
    assert read_error(tmp_path / "data.csv") == "data: must be a file. Given: FILE"
    assert read_error(tmp_path / "none.csv") == "data: cannot be read (file not found). Given: FILE"
    with pytest.raises(ConfigError, match=r"^data: must end in \.csv, \.parquet, \.npz or \.jsonl\. Given: a\.txt$"):
        read(Path("a.txt"))


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_contents_of_unread_columns_are_not_checked(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, pd.DataFrame({"a": [1, 2], "note": ["x", "y"]}))
    assert read(path, ["a"]) == {"a": [1, 2]}
    assert "column b is missing. Given: a, note in FILE" in read_error(path, ["b"])


def by_others(path: Path) -> pd.DataFrame:
    """Read a table with pandas, NumPy or json."""
    match path.suffix:
        case ".csv":
            return pd.read_csv(path, float_precision="round_trip")
        case ".parquet":
            return pd.read_parquet(path)
        case ".jsonl":
            return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    with np.load(path) as arrays:
        return pd.DataFrame(dict(arrays))


@pytest.mark.parametrize("ending", EXTENSIONS)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.tuples(NUMBERS, st.integers(-(2**31), 2**31 - 1)), min_size=1), min_size=1, max_size=3))
def test_written_numbers_are_read_exactly(
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


@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize("dtype", [str, object])
def test_written_text_is_read_exactly(tmp_path: Path, ending: str, dtype: type) -> None:
    path = tmp_path / f"data{ending}"
    pieces = [["cat", "3"], ['a "long" name, \\ é', "", "cat"]]
    with new_table(str(path)) as write:
        for piece in pieces:
            write({"name": np.array(piece, dtype), "a": np.arange(len(piece))})
    assert read(path, text=["name"]) == {"name": [*pieces[0], *pieces[1]], "a": [0, 1, 0, 1, 2]}


def test_float32_values_are_written_in_shortest_form(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    with new_table(str(path)) as write:
        write({"a": np.array([0.1, 1e20, -3], np.float32)})
    assert path.read_text() == '{"a": 0.1}\n{"a": 1e+20}\n{"a": -3}\n'


def test_equal_tables_give_equal_npz_files(tmp_path: Path) -> None:
    for name in ("one.npz", "other.npz"):
        with new_table(str(tmp_path / name)) as write:
            write({"a": np.arange(3)})
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert archive.testzip() is None


class StoppedError(Exception):
    """Error that interrupts writing."""


def _stop(write: Callable[..., None]) -> None:
    write({"a": np.zeros(10)})
    raise StoppedError


def _fill(write: Callable[..., None]) -> None:
    for _ in range(200):
        write({"a": np.random.default_rng(0).random(10_000)})


@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize(("ends", "error"), [(_stop, StoppedError), (_fill, ArtifactError)], ids=["stopped", "full"])
def test_interrupted_write_leaves_no_file(
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
    assert error is StoppedError or "file size limit of this process is 1000000 bytes" in str(raised.value)
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"before"]


def test_invalid_output_path_is_rejected(tmp_path: Path) -> None:
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


def test_csv_reader_that_stops_early_waits_for_its_thread(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"a\n" + b"0.123456789\n" * 4_000_000)
    events: list[str] = []
    is_reading, is_closing = threading.Event(), threading.Event()

    class SlowFile(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            events.append("read begins")
            if events.count("read begins") == 6:
                is_reading.set()
                is_closing.wait(60)
                # Longer than closing takes if it does not wait for this read.
                hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)
            content = super().read(-1 if size is None else size) or b""
            events.append("read ends")
            return content

        def close(self) -> None:
            if not self.closed:
                events.append("closed")
            super().close()

    class SlowPath(type(path)):  # type: ignore[misc]
        def open(self, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            return SlowFile(self) if mode == "rb" else super().open(mode, *arguments, **named)

    found = CsvFile(SlowPath(path)).read(["a"], [])
    next(found)
    assert is_reading.wait(60)
    is_closing.set()
    found.close()  # type: ignore[attr-defined]
    assert events.pop() == "closed"
    assert events == ["read begins", "read ends"] * (len(events) // 2)
