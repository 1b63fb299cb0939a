"""Entry point of the qcnn command: every fault the user can act on is one line and a non-zero exit."""

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from qcnn.cli.options.renamed import with_current_flags
from qcnn.cli.output import FAILED, INTERRUPTED, REFUSED, UNREAD
from qcnn.cli.target_choice import requested_target, target_command
from qcnn.errors import QcnnError, single_line
from qcnn.extras import missing
from qcnn.startup import drop_output, open_standard_streams
from qcnn.targets.errors import StepError

# What a shell sets that asks how words go on.
_COMPLETION = "_QCNN_COMPLETE"
# In the order in which they are shown. What no target has is the command of the module of its name.
_COMMANDS = {
    "run": "Run the whole pipeline on this machine.",
    "study": "Search an experiment's words, and evaluate the best trial.",
    "plan": "Print what an experiment will cost.",
    "circuit": "Draw and count a circuit, and write it for other libraries.",
    "compare": "Compare runs: parameters that differ, metrics, duration.",
    "tensorboard": "Open TensorBoard on runs.",
    "submit": "Submit an experiment to a cluster or a cloud, and leave it to it.",
    "status": "Print a table of TFJobs, runs or jobs, or what one of them consists of.",
    "logs": "Print what the workers of a TFJob, a run or a job have printed.",
    "predict": "Predict with what was trained.",
    "deploy": "Have an exported model answer requests in a cloud.",
    "undeploy": "End what deploy has begun.",
    "delete": "Delete TFJobs, runs or jobs with all that belongs to them.",
    "schedule": "Run an experiment again and again in a backend.",
    "terminate": "Terminate a run of a backend.",
}


class _LazyGroup(click.Group):
    """Loads a command when it is asked for: the client of Kubernetes alone takes half a second."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command, None if there is none of this name."""
        if name not in _COMMANDS:
            return None
        command: click.Command = target_command(name, _COMMANDS[name]) or getattr(
            importlib.import_module(f"qcnn.cli.{name}"), name
        )
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without loading any of them."""
        # Their names are those of a group; its options are those of a command.
        options = click.Command.shell_complete(self, context, incomplete)
        commands = [CompletionItem(name, help=does) for name, does in _COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *options]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does without loading it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        # Words are also taken as they stand in a file.
        "token_normalize_func": lambda token: token.replace("_", "-"),
    },
)
@click.version_option(package_name="qcnn", message="%(package)s %(version)s")
def qcnn() -> None:
    """Train quantum convolutional networks, here or as a Kubeflow pipeline."""


def main() -> None:
    """Run the command line."""
    run(qcnn)


def run(command: click.Command) -> None:
    """Run a command with what was typed; whatever can be expected to go wrong ends it in one line."""
    open_standard_streams()
    try:
        command.main(with_current_flags(sys.argv[1:]), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        _stop(error.format_message(), REFUSED)
    except click.ClickException as error:
        _stop(f"error: {single_line(error.format_message())}", REFUSED)
    except QcnnError as error:
        _stop(f"error: {error}", REFUSED)
    except StepError as error:
        _stop(f"error: {error}", error.code)
    except ModuleNotFoundError as error:
        message = missing(error, *_requester(sys.argv[1:]))
        if message is None:
            raise
        if _COMPLETION in os.environ:
            # It has no place for a line in the middle of what is typed.
            sys.exit(REFUSED)
        _stop(f"error: {message}", REFUSED)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _stop("error: nobody reads the output any more", UNREAD)
    except OSError as error:
        _stop(
            f"error: {single_line(error.strerror or error)}. Given: {single_line(error.filename or 'the output')}",
            FAILED,
        )


def _requester(words: Sequence[str]) -> tuple[str, str]:
    """Return what was asked for by these words, as messages call it, and the extra that has what it needs."""
    name = next((word for word in words if not word.startswith("-")), "")
    target = requested_target(name, words)
    if target is None:
        # What no target has runs on this machine.
        return f"qcnn {name}", "run"
    given = f" --target {target.name}" if target.is_given else ""
    return f"qcnn {name}{given}", target.extra


def _stop(message: str, code: int) -> None:
    with contextlib.suppress(OSError):
        click.echo(message, err=True)
    drop_output()
    sys.exit(code)
