"""Cloud resources and the execution of the gcloud and kubectl commands that manage them."""

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from qcnn.errors import ConfigError, QcnnError, single_line

Argv = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class InfraResource:
    """Cloud resource, defined by the commands that manage it.

    It exists if `describe` succeeds and its output contains every string of `expected`, and is incomplete if the output
    contains some of them. The commands of `create` create it, in this order. If there are none, it must exist. The
    commands of `delete` delete it. If there are none, it is deleted together with its `parent`, or retained for the
    reason in `retained`.
    """

    name: str
    description: str
    describe: Argv
    expected: tuple[str, ...]
    create: tuple[Argv, ...] = ()
    delete: tuple[Argv, ...] = ()
    # Data that its deletion loses and `create` does not restore.
    data_loss: str = ""
    # Name of the resource that contains it.
    parent: str = ""
    # Google API that must be enabled before `describe`.
    api: str = ""
    retained: str = ""
    # Whether it contains data of runs.
    is_data: bool = False
    # Command to run after its creation, before any command on its contents.
    connect: Argv = ()


# kubectl runs the plugin for credentials, and git to read the manifests of the training operator and KFP.
PROGRAMS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin", "git")
# Commands contain paths relative to this folder.
_ROOT = Path(__file__).parents[1]

# Errors of gcloud 528 for a missing resource: the API status, and the formats of its GKE and Cloud Storage clients.
# kubectl gets --ignore-not-found, so its errors never mean a missing object.
_NOT_FOUND = re.compile(
    r"^ERROR: \(gcloud\.[a-z.-]+\) (NOT_FOUND: |ResponseError: code=404, |gs://\S+ not found: 404\.)", re.MULTILINE
)
# A cluster with this name exists in another zone. The settings are wrong, and the cluster is not missing.
_ELSEWHERE = "Did you mean"
# Errors while a new resource is not yet visible in all of Google's services.
_NOT_YET = re.compile(
    r"Service account \S+ does not exist|Identity Pool does not exist|SERVICE_DISABLED|has not been used in project"
)


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """Output and success of a command."""

    succeeded: bool
    output: str
    errors: str


Run = Callable[[Argv], CommandResult]


class CommandError(QcnnError):
    """Failure of a command, with a single-line message."""


class NotReadyError(CommandError):
    """Failure of a command that may succeed later, because a new resource is not yet visible."""


def is_not_found(answer: CommandResult) -> bool:
    """Return whether a command failed because its resource does not exist."""
    return not answer.succeeded and bool(_NOT_FOUND.search(answer.errors)) and _ELSEWHERE not in answer.errors


def failure(name: str, argv: Argv, answer: CommandResult) -> CommandError:
    """Return the error of a failed command, with the reason that the program prints.

    Args:
        name: Resource that the command concerns.
        argv: Command.
        answer: Result of the command.
    """
    error = NotReadyError if _NOT_YET.search(answer.errors) else CommandError
    return error(f"{name}: {argv[0]} failed ({single_line(_reason(answer))}). Given: {' '.join(argv)}")


def check_programs(programs: Sequence[str] = PROGRAMS) -> None:
    """Raise ConfigError if a required program is not installed.

    Raises:
        ConfigError: If a program is not on PATH.
    """
    if missing := [program for program in programs if not shutil.which(program)]:
        path = os.environ.get("PATH", "")
        raise ConfigError(f"PATH: must contain {', '.join(programs)}; missing: {', '.join(missing)}. Given: {path}")


@contextmanager
def commands() -> Iterator[Run]:
    """Context manager that returns a function to run commands, with a temporary kubeconfig.

    The user's kubeconfig is not read or changed.
    """
    with TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "KUBECONFIG": str(Path(folder, "kubeconfig")),
            # destroy prompts before it deletes.
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }

        def run(argv: Argv) -> CommandResult:
            done = subprocess.run(
                argv, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            return CommandResult(done.returncode == 0, done.stdout, done.stderr)

        yield run


def _reason(answer: CommandResult) -> str:
    """Return the line of the error output with the reason of the failure."""
    lines = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith("error")]
    return (marked or lines[-1:] or ["no error output"])[0]
