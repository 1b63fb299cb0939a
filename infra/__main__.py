"""Command line for Google Cloud resources: python -m infra plan|apply|destroy [--settings FILE]."""

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
    help="Path to a settings file (YAML).",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def infra() -> None:
    """Create and delete the Google Cloud resources that training needs."""


@infra.command()
@_settings
@click.option("--offline", is_flag=True, help="Send no request; print all commands for an empty project.")
def plan(path: Path, offline: bool) -> None:
    """Show the state of each resource and the commands that apply would run."""
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
        for status in inspect_all(table, run):
            click.echo(f"{status.resource.name:{_WIDTH}}{status.state.value:12}{status.resource.description}")
            if status.state is not ResourceState.PRESENT:
                missing += 1
                _show_commands(status.resource, "    ")
    click.echo(f"{missing} of {len(table)} resources to create" if missing else "nothing to create")


@infra.command()
@_settings
def apply(path: Path) -> None:
    """Create missing resources. If interrupted, run it again to continue."""
    settings = read_settings(path)
    check_programs()
    with commands() as run:
        create_missing(resources(settings), run, click.echo, time.sleep)
        click.echo("waiting   for the deployments in the cluster")
        ready = wait_until_ready(settings)
        if not (answer := run(ready)).succeeded:
            raise failure("cluster", ready, answer)
    click.echo(f"image repository: {image_prefix(settings)}, bucket: gs://{settings.bucket_name}")


@infra.command()
@_settings
@click.option("--delete-data", is_flag=True, help="Delete the bucket with all outputs of runs.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
def destroy(path: Path, delete_data: bool, yes: bool) -> None:
    """Delete resources in reverse order, after a confirmation prompt. The bucket is kept."""
    settings = read_settings(path)
    check_programs()
    with commands() as run:
        statuses = list(inspect_all(resources(settings), run))
        check_deletable(statuses)
        to_delete = deletion_plan(statuses, delete_data)
        for status in reversed(statuses):
            click.echo(_destroy_line(status, to_delete))
        if not to_delete:
            click.echo("nothing to delete")
            return
        _confirm(len(to_delete), yes)
        delete(to_delete, run, click.echo)


def main() -> None:
    """Run the command line and report expected errors in a single line."""
    try:
        infra.main(prog_name="python -m infra", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        _stop(error.format_message(), _INVALID)
    except click.ClickException as error:
        _stop(f"error: {single_line(error.format_message())}", _INVALID)
    except QcnnError as error:
        _stop(f"error: {error}", _INVALID)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted; run the same command again to continue", _INTERRUPTED)


def resources(settings: InfraSettings) -> tuple[InfraResource, ...]:
    """Return all resources in creation order."""
    return (
        *project_and_services(settings),
        *storage(settings),
        *accounts(settings),
        *cluster(settings),
        # The first cluster creates the workload identity pool.
        *(identity(settings, account, NAMESPACE, owner) for account, owner in IDENTITIES.items()),
        *in_cluster(settings),
    )


def _show_commands(resource: InfraResource, indent: str = "") -> None:
    for argv in (*resource.create, *([resource.connect] if resource.connect else [])):
        click.echo(indent + shlex.join(argv))


def _destroy_line(status: ResourceStatus, to_delete: Sequence[InfraResource]) -> str:
    """Return the line of a resource in the output of destroy: action, and data loss or reason."""
    resource, state = status.resource, status.state
    if state in (ResourceState.ABSENT, ResourceState.UNKNOWN):
        action, reason = state.value, ""
    elif resource in to_delete:
        action, reason = "delete", f"data loss: {resource.data_loss}" if resource.data_loss else ""
    elif resource.retained:
        action, reason = "keep", resource.retained
    else:
        action = "delete" if resource.parent in {each.name for each in to_delete} else "keep"
        reason = f"with the {resource.parent}"
    return f"{resource.name:{_WIDTH}}{action:12}{reason}".rstrip()


def _confirm(count: int, yes: bool) -> None:
    """Prompt for confirmation of the deletion, except with --yes.

    Raises:
        ConfigError: If stdin is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"destroy: must have --yes if stdin is not a terminal. Given: {count} resources to delete")
    click.confirm("Delete these resources?", abort=True)


def _stop(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
