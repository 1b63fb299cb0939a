"""What the tensorboard step does."""

import shlex
from pathlib import Path

from trainer.folders import new_file
from trainer.startup import one_line_errors


def command(logs: str, program: str = "tensorboard") -> str:
    """Return the command that opens TensorBoard on a folder or bucket address."""
    return f"{shlex.quote(program)} --logdir {shlex.quote(logs)}"


def tensorboard(logs: str, link: str) -> None:
    """Write the Markdown page that links the logs."""
    page = f"# TensorBoard\n\nLogs: `{logs}`\n\n```sh\n{command(logs)}\n```\n"
    with one_line_errors(), new_file(Path(link)) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
