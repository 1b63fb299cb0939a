"""The folder of this machine's runs, as a flag."""

from pathlib import Path

import click

runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
