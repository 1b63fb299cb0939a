"""What leads from a run to TensorBoard."""

import json
import re
from pathlib import Path

import pytest

from qcnn.components.steps.tensorboard import PAGE, button, tensorboard


def test_the_link_of_a_run_in_a_backend_holds_a_command_short_enough_for_its_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "193e3cb6-cee4-4d9b-8395-662394621f23"
    monkeypatch.setenv("QCNN_RUN", run)
    logs = f"minio://mlpipeline/v2/artifacts/qcnn/{run}/train/r{run[:32]}-train-0-9fb20de2/logs"
    tensorboard(logs, {}, "", str(tmp_path / "link"))
    page = (tmp_path / "link").read_text()
    assert f"```sh\nqcnn tensorboard {run}\n```" in page
    # What stands in a line of code is not broken: the box takes about sixty characters.
    assert max(map(len, re.findall(r"```sh\n(.*)\n```", page))) <= 60
    assert f"`{logs}`" in page


def test_the_link_holds_the_exact_command(tmp_path: Path) -> None:
    given = {"seed": "3", "display_name": "logs", "store_session_info": "{}"}
    metadata = tensorboard("gs://bucket/my run/logs", given, "https://board", str(tmp_path / "link"))
    # What the backend keeps of the logs themselves is not the link's.
    assert metadata == {"seed": "3"}
    assert "qcnn tensorboard 'gs://bucket/my run/logs'" in (tmp_path / "link").read_text()


def test_a_board_that_is_deployed_is_linked_and_a_button_names_logs_and_image(tmp_path: Path) -> None:
    tensorboard("gs://bucket/logs", {}, "https://board.example", str(tmp_path / "link"))
    assert "[https://board.example](https://board.example)" in (tmp_path / "link").read_text()
    tensorboard("gs://bucket/logs", {PAGE: "https://managed.example"}, "", str(tmp_path / "link"))
    assert "[https://managed.example](https://managed.example)" in (tmp_path / "link").read_text()
    button("gs://bucket/logs", "qcnn:1", str(tmp_path / "button"))
    (viewer,) = json.loads((tmp_path / "button").read_text())["outputs"]
    assert viewer == {"type": "tensorboard", "source": "gs://bucket/logs", "image": "qcnn:1", "pod_template_spec": {}}
