"""qcnn deploy and undeploy: models at endpoints of a target."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from qcnn.cli.options.settings import (
    OutputOptions,
    dry_run_option,
    format_option,
    output_options,
    settings_options,
    yes_option,
)
from qcnn.cli.output import confirm, on_stderr, print_requests, show_table
from qcnn.targets.base import Deployed, Deploys, TargetSettings

_HEADER = ("id", "version", "traffic")
_NOTHING = "no version is deployed"


def deploy_command(kind: type[Deploys[TargetSettings]]) -> click.Command:
    """Return the deploy command of a target."""

    @settings_options(kind.deploy_settings, kind.name)
    @output_options(kind.requests_are)
    def deploy(settings: TargetSettings, printing: OutputOptions) -> None:
        with kind(settings) as target:
            if printing.dry_run:
                print_requests(target.deploy_requests(settings), kind.requests_are, printing.output_format)
                return
            # With JSON on stdout, all other output goes to stderr.
            report = functools.partial(click.echo, err=printing.output_format == "json")
            versions, access = target.deploy(settings, report, on_stderr)
        show_table(printing.output_format, _HEADER, _rows(versions), _NOTHING)
        for name, value in access.items():
            report(f"{name}: {value}")

    return click.command("deploy", help=kind.deploy_help)(deploy)


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
