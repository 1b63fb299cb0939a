"""Entry point of the qcnn command: reports each expected error in one line, with a nonzero exit code."""

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from qcnn.cli.output import FAILED, INTERRUPTED, PIPE_CLOSED, REJECTED
from qcnn.cli.target_choice import requested_target, target_command
from qcnn.errors import QcnnError, WriteError, single_line
from qcnn.process.extras import missing
from qcnn.process.installation import version, warn_about_other_distribution
from qcnn.process.signals import time_limit
from qcnn.process.standard_streams import drop_output, open_standard_streams
from qcnn.targets.errors import StepError

# Seconds for the last output of an interrupted command.
_LAST_SECONDS = 1.0
# Environment variable that a shell sets to request completion.
_COMPLETION = "_QCNN_COMPLETE"
# Commands by section of the help, in the order of the help. A command that no target has is in the module of its name.
_SECTIONS = {
    "Experiment Commands": {
        "run": "Run the pipeline on the local machine.",
        "study": "Run a hyperparameter search.",
        "plan": "Estimate the runtime, memory and cost of an experiment.",
        "dataset": "Write a known dataset as a table.",
        "circuit": "Draw, analyze or export a circuit.",
        "doctor": "Check whether a machine, cluster or project is ready for a training.",
        "predict": "Predict samples with a trained model.",
    },
    "Cluster and Cloud Commands": {
        "submit": "Submit an experiment to a cluster or cloud.",
        "status": "List jobs and runs, or show one in detail.",
        "logs": "Print the logs of a job or run.",
        "terminate": "Terminate a pipeline run and its training jobs.",
        "delete": "Delete jobs or runs and their dependent objects.",
        "schedule": "Manage recurring runs.",
    },
    "Result Commands": {
        "compare": "Compare the fields and metrics of runs.",
        "tensorboard": "Open TensorBoard on runs.",
        "track": "Send runs to a tracking server.",
    },
    "Registry Commands": {
        "register": "Register the model of a run as a version.",
        "promote": "Promote a version that is better than the present one.",
        "models": "List registered models, or the versions of one.",
    },
    "Serving Commands": {
        "serve": "Serve exported models over HTTP and gRPC.",
        "export": "Export a model as a version for servers.",
        "deploy": "Deploy an exported model to an endpoint.",
        "undeploy": "Undeploy all model versions and delete the endpoint.",
    },
}
_COMMANDS = {name: text for commands in _SECTIONS.values() for name, text in commands.items()}
_EPILOG = (
    'Use "qcnn COMMAND --help" for a command, and "qcnn COMMAND --target TARGET --help" for the options of a target.'
)
# Commands whose libraries the extra `serve` installs.
_WITHOUT_TENSORFLOW = ("serve", "register", "promote", "models")
# New objects after which garbage is collected.
_NEW_OBJECTS = 100_000


class _LazyGroup(click.Group):
    """Group that imports a command on first use: importing the Kubernetes client alone takes half a second."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of a name, or None if it does not exist."""
        if name not in _COMMANDS:
            return None
        command: click.Command = target_command(name, _COMMANDS[name]) or getattr(
            importlib.import_module(f"qcnn.cli.{name}"), name
        )
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that start with a text, without importing any command."""
        # click.Group would import every command; click.Command completes the options alone.
        options = click.Command.shell_complete(self, context, incomplete)
        commands = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *options]

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section, then the options."""
        self.format_commands(context, formatter)
        click.Command.format_options(self, context, formatter)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section without importing them."""
        width = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        # Flags also accept the spelling of fields in a file, with underscores.
        "token_normalize_func": lambda token: token.replace("_", "-"),
    },
)
@click.version_option(version(), message="qcnn %(version)s")
def qcnn() -> None:
    """Train quantum convolutional networks locally, on Kubernetes, in Kubeflow Pipelines or on Vertex AI."""


def main() -> None:
    """Run the qcnn command with the arguments of this process."""
    run(qcnn)


def run(command: click.Command) -> None:
    """Run a command with the arguments of this process, and exit with a one-line message on expected errors."""
    open_standard_streams()
    # That distribution may have replaced qcnn/__init__.py.
    warn_about_other_distribution()
    # Circuits of thousands of gates are read into millions of objects, which rarely become garbage.
    gc.set_threshold(_NEW_OBJECTS)
    error = _expected_error(command)
    if error is not None:
        # The frames of the traceback hold open readers, whose threads must end before the interpreter does.
        gc.collect()
        _stop(*error)


def _expected_error(command: click.Command) -> tuple[str, int] | None:
    """Run a command and return the message and the exit code of an expected error, or None without one."""
    try:
        command.main(sys.argv[1:], standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        return error.format_message(), REJECTED
    except click.ClickException as error:
        return f"error: {single_line(error.format_message())}", REJECTED
    except WriteError as error:
        return f"error: {error}", FAILED
    except StepError as error:
        return f"error: {error}", error.code
    except QcnnError as error:
        return f"error: {error}", REJECTED
    except ModuleNotFoundError as error:
        message = missing(error, *_requester(sys.argv[1:]))
        if message is None:
            raise
        if _COMPLETION in os.environ:
            # A message would appear in the middle of the command line that the shell completes.
            sys.exit(REJECTED)
        return f"error: {message}", REJECTED
    except (click.Abort, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    except BrokenPipeError:
        return "error: output pipe closed", PIPE_CLOSED
    except OSError as error:
        reason, path = single_line(error.strerror or error), single_line(error.filename or "the output")
        return f"error: {reason}. Given: {path}", FAILED
    return None


def _requester(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the name of the command in error messages, and the extra that installs its libraries."""
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    target = requested_target(name, arguments)
    if target is None:
        # Commands without targets run locally.
        return f"qcnn {name}", "serve" if name in _WITHOUT_TENSORFLOW else "run"
    given = f" --target {target.name}" if target.is_given else ""
    return f"qcnn {name}{given}", target.extra


def _stop(message: str, code: int) -> None:
    # After an interrupt, the command must not wait for a reader that no longer reads.
    seconds = _LAST_SECONDS if code == INTERRUPTED else 0.0
    with contextlib.suppress(OSError), time_limit(seconds):
        click.echo(message, err=True)
    with time_limit(seconds):
        drop_output()
    sys.exit(code)
