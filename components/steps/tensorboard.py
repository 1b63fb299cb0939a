"""What the tensorboard step does."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn.atomic_files import new_file
from qcnn.components.training_job import run_id
from qcnn.startup import one_line_errors

# Keys that a backend adds to the metadata of each artifact, about that artifact alone.
BACKENDS_OWN = ("display_name", "store_session_info")
# The key, in the metadata of logs, of the page on which the platform itself shows them.
PAGE = "tensorboard_page"


def command(*arguments: str, program: str = "qcnn") -> str:
    """Return the command that opens TensorBoard on what the arguments name."""
    return shlex.join([program, "tensorboard", *arguments])


def tensorboard(logs: str, metadata: Mapping[str, Any], address: str, link: str) -> dict[str, Any]:
    """Write the Markdown page that links the logs; return its metadata, which are those of the logs.

    `address` is that of a TensorBoard that shows them, empty where there is none. So is the PAGE of the metadata.
    """
    boards = [board for board in (address, metadata.get(PAGE)) if board]
    deployed = "".join(f"[{board}]({board})\n\n" for board in boards)
    # The interface does not wrap lines of code, and a run's id is shorter than an address.
    shown = command(run_id() or logs)
    page = f"# TensorBoard\n\n{deployed}```sh\n{shown}\n```\n\nLogs: `{logs}`\n"
    with one_line_errors(), new_file(Path(link)) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return {name: value for name, value in metadata.items() if name not in BACKENDS_OWN}


def button(logs: str, image: str, path: str) -> None:
    """Write the file by which Kubeflow's interface starts a TensorBoard (frontend, OutputArtifactLoader)."""
    viewer = {"type": "tensorboard", "source": logs, "image": image, "pod_template_spec": {}}
    with one_line_errors(), new_file(Path(path)) as unfinished:
        unfinished.write_text(json.dumps({"outputs": [viewer]}), encoding="utf-8")
