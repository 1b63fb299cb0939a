"""Predictions for files by a server."""

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3

import qcnn
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.predictions import PredictionFiles
from qcnn.serving.client import ServedClient, predict_by_url
from qcnn.storage.store import UnreachableError
from qcnn.tables.table import open_table
from tests.qcnn.serving.conftest import CLASSES, EXCITATIONS
from tests.qcnn.serving.server_process import ServerProcess


def _rows(path: Path, count: int) -> Path:
    rows = np.random.default_rng(0).uniform(0, 1.5, (count, 4))
    lines = [",".join(map(repr, [*row.tolist(), 1])) for row in rows]
    path.write_text("\n".join(["w,x,y,z,label", *lines]) + "\n")
    return path


def _read(path: Path, *text: str) -> dict[str, np.ndarray]:
    with open_table(str(path)) as table:
        pieces = list(table.pieces(None, text))
    return {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in pieces[0].columns}


@pytest.mark.parametrize("path", ["v1/models/rows", "v2/models/rows/versions/1"])
def test_file_is_predicted_as_by_model(server: ServerProcess, tmp_path: Path, path: str, rows_model: Path) -> None:
    """The file has several requests."""
    files = PredictionFiles(str(_rows(tmp_path / "rows.csv", 900)), str(tmp_path / "out.parquet"))
    summary = predict_by_url(f"{server.url}/{path}", files, rows_of_request=400)
    found = _read(tmp_path / "out.parquet")
    assert (summary.rows, [*found]) == (900, ["w", "x", "y", "z", "prediction"])
    expected = qcnn.load(rows_model).predict(np.stack([found[name] for name in "wxyz"], axis=1))
    # The data type of the inputs of v2 is float32, but the numbers are those of the file.
    assert np.array_equal(found["prediction"], expected)


def test_classes_are_written_by_name(server: ServerProcess, tmp_path: Path, classes_model: Path) -> None:
    model = qcnn.load(classes_model)
    for protocol in ("v1", "v2"):
        files = PredictionFiles(str(_rows(tmp_path / "rows.csv", 20)), str(tmp_path / f"{protocol}.csv"))
        predict_by_url(f"{server.url}/{protocol}/models/classes", files)
        found = _read(tmp_path / f"{protocol}.csv", "prediction")
        expected = model.predict(np.stack([found[name] for name in "wxyz"], axis=1))
        assert [*found["prediction"]] == [CLASSES[number] for number in expected.argmax(axis=1)]
        assert np.array_equal(found["probabilities_2"], expected[:, 2])


def test_excitations_are_predicted_by_name_of_column(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("note,angle,qubit\n7,0.5,1\n8,-0.5,3\n")
    printed: list[str] = []
    files = PredictionFiles(str(tmp_path / "rows.csv"), "-")
    predict_by_url(f"{server.url}/v2/models/model", files, report=printed.append)
    expected = qcnn.load(EXCITATIONS).predict(qubit=[1, 3], angle=[0.5, -0.5]).tolist()
    assert printed == [f"qubit,angle,prediction\n1,0.5,{expected[0]!r}\n3,-0.5,{expected[1]!r}"]


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("{}/v1/models/nothing", 'url: the server answers 404 ("model: must be one of classes, model, rows. Given: '),
        ("{}/v1/models/model", "url: the server answers 400 ('qubit: row 1 must be a whole number, 0 to 3. Given: 9"),
        ("{}/v2/models/model", "url: the server answers 400 ('qubit: row 1 must be a whole number, 0 to 3. Given: 9"),
        (
            "{}/other/v1/models/model",
            'url: the server answers 404 ("path: must be of /v1/models or /v2/models. Given: ',
        ),
        ("{}", "url: must be http://HOST:PORT/v1/models/NAME or /v2/models/NAME. Given: 'http"),
        ("file:///v1/models/model", "url: must be http://HOST:PORT/v1/models/NAME or /v2/models/NAME. Given: 'file"),
    ],
)
def test_rejected_rows_are_one_line(server: ServerProcess, tmp_path: Path, url: str, line: str) -> None:
    (tmp_path / "rows.csv").write_text("qubit,angle\n9,0.5\n")
    files = PredictionFiles(str(tmp_path / "rows.csv"), str(tmp_path / "out.csv"))
    with pytest.raises(ConfigError, match=rf"^{re.escape(line)}[^\n]*$"):
        predict_by_url(url.format(server.url), files)
    assert not (tmp_path / "out.csv").exists()


def test_requests_of_protocol_v2_have_an_id(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KServe's Python server answers 500 to a request without one."""
    sent: list[dict[str, object]] = []
    request = urllib3.PoolManager.request

    def record(self: urllib3.PoolManager, method: str, url: str, **given: Any) -> urllib3.BaseHTTPResponse:
        sent.extend([given["json"]] if "json" in given else [])
        return request(self, method, url, **given)

    monkeypatch.setattr(urllib3.PoolManager, "request", record)
    (tmp_path / "rows.csv").write_text("qubit,angle\n1,0.5\n3,-0.5\n")
    files = PredictionFiles(str(tmp_path / "rows.csv"), str(tmp_path / "out.csv"))
    predict_by_url(f"{server.url}/v2/models/model", files, rows_of_request=1)
    assert len({str(each["id"]) for each in sent if each["id"]}) == 2


def test_data_with_other_columns_raise(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    files = PredictionFiles(str(tmp_path / "rows.csv"), str(tmp_path / "out.csv"))
    with pytest.raises(ArtifactError, match=r"^data: must have the 4 columns that the model takes, .* Given: 2 in "):
        predict_by_url(f"{server.url}/v1/models/rows", files)
    with pytest.raises(ArtifactError, match=r"^data: must have the column qubit\. Given: a, b in "):
        predict_by_url(f"{server.url}/v1/models/model", files)


def test_server_that_does_not_answer_raises() -> None:
    client = ServedClient("http://127.0.0.1:1/v1/models/model", retries=0)
    with (
        contextlib.closing(client),
        pytest.raises(UnreachableError, match=r"^url: the server does not answer \(\w+\)\. Given: http://127"),
    ):
        client.inputs()
