"""Links from a run to TensorBoard."""

import json
import re
from pathlib import Path

import pytest

from qcnn.components.steps.tensorboard import PAGE, button, tensorboard


def test_link_command_has_run_id_and_fits_kfp_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = "193e3cb6-cee4-4d9b-8395-662394621f23"
    monkeypatch.setenv("QCNN_RUN", run)
    logs = f"minio://mlpipeline/v2/artifacts/qcnn/{run}/train/r{run[:32]}-train-0-9fb20de2/logs"
    tensorboard(logs, {}, "", str(tmp_path / "link"))
    page = (tmp_path / "link").read_text()
    assert f"```sh\nqcnn tensorboard {run}\n```" in page
    # The KFP UI does not wrap lines of code and displays about 60 characters.
    assert max(map(len, re.findall(r"```sh\n(.*)\n```", page))) <= 60
    assert f"`{logs}`" in page


def test_link_without_run_id_has_command_with_uri(tmp_path: Path) -> None:
    of_logs = {"seed": "3", "display_name": "logs", "store_session_info": "{}"}
    metadata = tensorboard("gs://bucket/my run/logs", of_logs, "https://board", str(tmp_path / "link"))
    # KFP's metadata of the logs are not copied.
    assert metadata == {"seed": "3"}
    assert "qcnn tensorboard 'gs://bucket/my run/logs'" in (tmp_path / "link").read_text()


def test_link_has_urls_and_button_has_logs_and_image(tmp_path: Path) -> None:
    tensorboard("gs://bucket/logs", {}, "https://board.example", str(tmp_path / "link"))
    assert "[https://board.example](https://board.example)" in (tmp_path / "link").read_text()
    tensorboard("gs://bucket/logs", {PAGE: "https://managed.example"}, "", str(tmp_path / "link"))
    assert "[https://managed.example](https://managed.example)" in (tmp_path / "link").read_text()
    button("gs://bucket/logs", "qcnn:1", str(tmp_path / "button"))
    (viewer,) = json.loads((tmp_path / "button").read_text())["outputs"]
    assert viewer == {"type": "tensorboard", "source": "gs://bucket/logs", "image": "qcnn:1", "pod_template_spec": {}}
