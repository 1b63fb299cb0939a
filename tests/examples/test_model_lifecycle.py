"""The example of a model in use, with a server in a separate process."""

from pathlib import Path

import pytest

import qcnn
from examples import model_lifecycle


@pytest.mark.long
def test_answers_change_without_failed_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = model_lifecycle.main(tmp_path)
    first, second = (
        float(qcnn.load(tmp_path / name).predict([model_lifecycle.ROW])[0]) for name in ("first", "second")
    )
    assert first != second
    assert client.answers == [first, second, first]
    assert client.failures == []
    monkeypatch.setenv("QCNN_REGISTRY", str(tmp_path / "models"))
    assert qcnn.load("moons@champion").predict([model_lifecycle.ROW])[0] == first
    lines = capsys.readouterr().out.splitlines()
    assert "moons: champion is version 1, the first one" in lines
    (moved,) = [line for line in lines if line.startswith("moons: champion moves from version 1 to 2: loss ")]
    assert " test rows of version 2: better with probability " in moved
