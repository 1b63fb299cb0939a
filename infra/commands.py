"""Resources and their commands; runs gcloud and kubectl, and tells what their answers mean."""

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
    contains some of them. The commands of `create` make it, in their order; without any, it must exist. Those of
    `delete` delete it; without any, it is deleted together with its `parent`, or stays for the reason in `retained`.
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


# kubectl asks the plugin for credentials, and has git read the manifests of the two parts of Kubeflow.
PROGRAMS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin", "git")
# Files that commands name lie below it.
_ROOT = Path(__file__).parents[1]

# What gcloud 528 says of a thing that is not there: Google's own status, and those of its clients for GKE and for Cloud
# Storage. kubectl is asked with --ignore-not-found, so that all its errors are errors.
_NOT_FOUND = re.compile(
    r"^ERROR: \(gcloud\.[a-z.-]+\) (NOT_FOUND: |ResponseError: code=404, |gs://\S+ not found: 404\.)", re.MULTILINE
)
# A cluster of this name stands in another zone: the settings are wrong, and nothing is known to be gone.
_ELSEWHERE = "Did you mean"
# What was made a moment ago is not known everywhere yet.
_NOT_YET = re.compile(
    r"Service account \S+ does not exist|Identity Pool does not exist|SERVICE_DISABLED|has not been used in project"
)


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """What a command has printed, and whether it has succeeded."""

    succeeded: bool
    output: str
    errors: str


Run = Callable[[Argv], CommandResult]


class CommandError(QcnnError):
    """A command failed; the message is one line with what it concerned and its own reason."""


class NotReadyError(CommandError):
    """A command failed because what it needs was made a moment ago; it may succeed soon."""


def is_not_found(answer: CommandResult) -> bool:
    """Return whether a command failed because what it asks about does not exist, and for no other reason."""
    return not answer.succeeded and bool(_NOT_FOUND.search(answer.errors)) and _ELSEWHERE not in answer.errors


def failure(concerned: str, argv: Argv, answer: CommandResult) -> CommandError:
    """Return the error that an answer is: one line with the reason that the program gives."""
    kind = NotReadyError if _NOT_YET.search(answer.errors) else CommandError
    return kind(f"{concerned}: {argv[0]} failed ({single_line(_reason(answer))}). Given: {' '.join(argv)}")


def check_programs(programs: Sequence[str] = PROGRAMS) -> None:
    """Refuse to begin without the programs that are run.

    Raises:
        ConfigError: one is not on PATH.
    """
    if missing := [program for program in programs if not shutil.which(program)]:
        raise ConfigError(f"PATH: must hold {', '.join(programs)}; not found: {', '.join(missing)}. Given: {_path()}")


@contextmanager
def commands() -> Iterator[Run]:
    """Give what runs commands, with a kubeconfig of its own, so that nobody's own is read or changed."""
    with TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "KUBECONFIG": str(Path(folder, "kubeconfig")),
            # What gcloud would ask is answered by its default; whether to delete has been asked before.
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }

        def run(argv: Argv) -> CommandResult:
            done = subprocess.run(
                argv, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            return CommandResult(done.returncode == 0, done.stdout, done.stderr)

        yield run


def _reason(answer: CommandResult) -> str:
    """Return the line of what a program has printed that says why it failed."""
    lines = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith("error")]
    return (marked or lines[-1:] or ["it says nothing"])[0]


def _path() -> str:
    return os.environ.get("PATH", "")
