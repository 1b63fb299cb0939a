"""From an empty cloud project to one that trains, and back: python -m infra plan|apply|destroy [--settings FILE]."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from infra.commands import InfraResource, check_programs, commands, failure
from infra.google import accounts, cluster, identity, image_prefix, project_and_services, storage
from infra.kubernetes import IDENTITIES, NAMESPACE, in_cluster, wait_until_ready
from infra.settings import InfraSettings, read_settings
from infra.steps import (
    ResourceState,
    ResourceStatus,
    check_deletable,
    create_missing,
    delete,
    deletion_plan,
    inspect_all,
)
from qcnn.errors import ConfigError, QcnnError, single_line

_SETTINGS = Path(__file__).with_name("settings.yaml")
_INVALID, _INTERRUPTED = 2, 130
_WIDTH = 28

_settings = click.option(
    "--settings",
    "path",
    type=click.Path(path_type=Path),
    default=_SETTINGS,
    show_default="infra/settings.yaml",
    metavar="FILE",
    help="YAML file with names, places and sizes.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def infra() -> None:
    """From an empty cloud project to one that trains, and back."""


@infra.command()
@_settings
@click.option("--offline", is_flag=True, help="Ask no cloud: print all commands that an empty project would need.")
def plan(path: Path, offline: bool) -> None:
    """Print what is there, what is not, and the commands that apply would run. Changes nothing."""
    settings = read_settings(path)
    table = resources(settings)
    if offline:
        for resource in table:
            click.echo(f"# {resource.name}: {resource.description}")
            _show_commands(resource)
        return
    check_programs()
    missing = 0
    with commands() as run:
        for found in inspect_all(table, run):
            click.echo(f"{found.resource.name:{_WIDTH}}{found.state.value:12}{found.resource.description}")
            if found.state is not ResourceState.PRESENT:
                missing += 1
                _show_commands(found.resource, "    ")
    click.echo(f"{missing} of {len(table)} are to be made" if missing else "nothing is to be made")


@infra.command()
@_settings
def apply(path: Path) -> None:
    """Make what is absent, in order. Run again after it was stopped, it goes on; when all is there, it does nothing."""
    settings = read_settings(path)
    check_programs()
    with commands() as run:
        create_missing(resources(settings), run, click.echo, time.sleep)
        click.echo("waiting   until everything in the cluster answers")
        ready = wait_until_ready(settings)
        if not (answer := run(ready)).succeeded:
            raise failure("cluster", ready, answer)
    click.echo(f"images go to {image_prefix(settings)}, outputs to gs://{settings.bucket_name}")


@infra.command()
@_settings
@click.option("--delete-data", is_flag=True, help="Delete the bucket too, with all that runs have written.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def destroy(path: Path, delete_data: bool, yes: bool) -> None:
    """List what is there and what deleting it loses, ask, and delete it in reverse order. The bucket stays."""
    settings = read_settings(path)
    check_programs()
    with commands() as run:
        found = list(inspect_all(resources(settings), run))
        check_deletable(found)
        doomed = deletion_plan(found, delete_data)
        for each in reversed(found):
            click.echo(_fate(each, doomed))
        if not doomed:
            click.echo("nothing is to be deleted")
            return
        _confirm(len(doomed), yes)
        delete(doomed, run, click.echo)


def main() -> None:
    """Run the command line; what can be expected to go wrong ends it in one line."""
    try:
        infra.main(prog_name="python -m infra", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        _stop(error.format_message(), _INVALID)
    except click.ClickException as error:
        _stop(f"error: {single_line(error.format_message())}", _INVALID)
    except QcnnError as error:
        _stop(f"error: {error}", _INVALID)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted; the same command goes on from here", _INTERRUPTED)


def resources(settings: InfraSettings) -> tuple[InfraResource, ...]:
    """Return all resources, each after those that it needs."""
    return (
        *project_and_services(settings),
        *storage(settings),
        *accounts(settings),
        *cluster(settings),
        # The pool of identities is there once a cluster is.
        *(identity(settings, account, NAMESPACE, owner) for account, owner in IDENTITIES.items()),
        *in_cluster(settings),
    )


def _show_commands(resource: InfraResource, indent: str = "") -> None:
    for argv in (*resource.create, *([resource.connect] if resource.connect else [])):
        click.echo(indent + shlex.join(argv))


def _fate(found: ResourceStatus, doomed: Sequence[InfraResource]) -> str:
    """Return a line with what destroying does to a resource, and what that loses."""
    resource, state = found.resource, found.state
    if state in (ResourceState.ABSENT, ResourceState.UNKNOWN):
        fate, why = state.value, ""
    elif resource in doomed:
        fate, why = "deletes", f"loses {resource.data_loss}" if resource.data_loss else ""
    elif resource.retained:
        fate, why = "keeps", resource.retained
    elif resource.parent in {each.name for each in doomed}:
        fate, why = "goes along", f"with the {resource.parent}"
    else:
        fate, why = "keeps", f"with the {resource.parent}"
    return f"{resource.name:{_WIDTH}}{fate:12}{why}".rstrip()


def _confirm(count: int, yes: bool) -> None:
    """Ask whether to delete, unless that was answered beforehand.

    Raises:
        ConfigError: there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"destroy: asks whether to; without a terminal give --yes. Given: {count} to delete")
    click.confirm("delete these?", abort=True)


def _stop(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
