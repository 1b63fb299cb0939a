"""qcnn deploy and undeploy: models at endpoints of a target."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import click

from qcnn.cli.options.settings import dry_run_option, format_option, settings_options, yes_option
from qcnn.cli.output import confirm, on_stderr, show_table
from qcnn.targets.base import Deployed, Deploys, TargetSettings

_HEADER = ("id", "version", "traffic")
_NOTHING = "no version is deployed"


def deploy_command(kind: type[Deploys[TargetSettings]]) -> click.Command:
    """Return the deploy command of a target."""

    @click.option("--dry-run", is_flag=True, help="Print the requests for a new endpoint as JSON without sending them.")
    @format_option
    @settings_options(kind.deploy_settings, kind.name)
    def deploy(dry_run: bool, output_format: str, settings: TargetSettings) -> None:
        with kind(settings) as target:
            if dry_run:
                click.echo(json.dumps(target.deploy_requests(settings), indent=2))
                return
            # With JSON on stdout, all other output goes to stderr.
            report = functools.partial(click.echo, err=output_format == "json")
            versions, page = target.deploy(settings, report, on_stderr)
        show_table(output_format, _HEADER, _rows(versions), _NOTHING)
        report(f"endpoint page: {page}")

    return click.command(
        "deploy",
        help=f"Deploy MODEL as a new version to an endpoint of {kind.title}.\n\nMODEL is an exported model folder. "
        "Machines are billed until `qcnn undeploy`. To change the traffic of a version, deploy it again with another "
        "--traffic.",
    )(deploy)


def undeploy_command(kind: type[Deploys[TargetSettings]]) -> click.Command:
    """Return the undeploy command of a target."""

    @click.argument("endpoint", metavar="ENDPOINT")
    @format_option
    @dry_run_option
    @yes_option
    @settings_options(kind.connection_settings, kind.name, "connection")
    def undeploy(endpoint: str, output_format: str, dry_run: bool, yes: bool, connection: TargetSettings) -> None:
        with kind(connection) as target:
            rows = _rows(target.deployed(endpoint))
            show_table(output_format, _HEADER, rows, _NOTHING)
            if dry_run:
                return
            confirm(len(rows) + 1, yes)
            target.undeploy(endpoint)
        click.echo("deleted", err=output_format == "json")

    return click.command(
        "undeploy", help="Undeploy all versions and delete ENDPOINT. Models are kept and can be deployed again."
    )(undeploy)


def _rows(versions: Sequence[Deployed]) -> list[tuple[str, str, str]]:
    return [(each.id, each.version, f"{each.traffic} %") for each in versions]
