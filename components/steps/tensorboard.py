"""The TensorBoard step, which links the logs of a run."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn.atomic_files import new_file
from qcnn.components.training_job import run_id

# Metadata keys that KFP adds to each artifact and that are not copied to another one.
BACKEND_METADATA = ("display_name", "store_session_info")
# Metadata key of the logs with the URL of a managed TensorBoard page.
PAGE = "tensorboard_page"


def command(*arguments: str, program: str = "qcnn") -> str:
    """Return the shell command that opens TensorBoard with these arguments."""
    return shlex.join([program, "tensorboard", *arguments])


def tensorboard(logs: str, metadata: Mapping[str, Any], address: str, link: str) -> dict[str, Any]:
    """Write the Markdown page that links the logs and return its metadata, which are those of the logs.

    Args:
        logs: URI or path of the logs.
        metadata: Metadata of the logs. Its `PAGE`, if present, is linked too.
        address: URL of a TensorBoard that serves the logs, or an empty string.
        link: Path of the Markdown file.
    """
    boards = [board for board in (address, metadata.get(PAGE)) if board]
    deployed = "".join(f"[{board}]({board})\n\n" for board in boards)
    # The KFP UI does not wrap lines of code, and a run ID is shorter than a URI.
    page = f"# TensorBoard\n\n{deployed}```sh\n{command(run_id() or logs)}\n```\n\nLogs: `{logs}`\n"
    with new_file(Path(link)) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return {name: value for name, value in metadata.items() if name not in BACKEND_METADATA}


def button(logs: str, image: str, path: str) -> None:
    """Write the file from which the KFP UI starts a TensorBoard (frontend, OutputArtifactLoader).

    Args:
        logs: URI of the logs.
        image: Container image of the TensorBoard.
        path: Path of the file (JSON).
    """
    viewer = {"type": "tensorboard", "source": logs, "image": image, "pod_template_spec": {}}
    with new_file(Path(path)) as unfinished:
        unfinished.write_text(json.dumps({"outputs": [viewer]}), encoding="utf-8")
