"""Entry point of the qcnn command: every fault the user can act on is one line and a non-zero exit."""

import sys

import click

from cli.compare import compare
from cli.errors import StepError
from cli.plan import plan
from cli.run import run
from cli.tensorboard import tensorboard
from trainer.errors import QcnnError

_FAILED = 1
_INVALID = 2
_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def qcnn() -> None:
    """Train quantum convolutional networks, here or as a Kubeflow pipeline."""


qcnn.add_command(run)
qcnn.add_command(plan)
qcnn.add_command(compare)
qcnn.add_command(tensorboard)


def main() -> None:
    """Run the command line."""
    try:
        qcnn.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        _stop(error.format_message(), _INVALID)
    except click.ClickException as error:
        _stop(f"error: {' '.join(error.format_message().split())}", _INVALID)
    except QcnnError as error:
        _stop(f"error: {error}", _INVALID)
    except StepError as error:
        _stop(f"error: {error}", _FAILED)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted", _INTERRUPTED)


def _stop(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)
