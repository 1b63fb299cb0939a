"""What the tensorboard step does."""

import shlex
from pathlib import Path


def command(logs: str, program: str = "tensorboard") -> str:
    """Return the command that opens TensorBoard on a folder or bucket address."""
    return f"{program} --logdir {shlex.quote(logs)}"


def tensorboard(logs: str, link: str) -> None:
    """Write the Markdown page that links the logs."""
    page = f"# TensorBoard\n\nLogs: `{logs}`\n\n```sh\n{command(logs)}\n```\n"
    Path(link).write_text(page, encoding="utf-8")
