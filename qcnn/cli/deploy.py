"""qcnn deploy and undeploy: models that answer requests at endpoints of a target."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import click

from qcnn.cli.options.settings import form_option, settings_options, shown_only_option
from qcnn.cli.output import confirm, on_stderr, show_table
from qcnn.targets.base import Deployed, Deploys

_HEADER = ("id", "version", "traffic")
_NOTHING = "no version is deployed"


def deploy_command(target: Deploys) -> click.Command:
    """Return qcnn deploy of a target."""

    @click.option("--dry-run", is_flag=True, help="Print the requests for a new endpoint as JSON, and send nothing.")
    @form_option
    @settings_options(target.deploy_settings, target.name)
    def deploy(dry_run: bool, form: str, settings: Any) -> None:
        if dry_run:
            click.echo(json.dumps(target.deploy_requests(settings), indent=2))
            return
        # Where JSON alone is to be on stdout, what is told besides stands on stderr.
        say = functools.partial(click.echo, err=form == "json")
        found, page = target.deploy(settings, say, on_stderr)
        show_table(form, _HEADER, _rows(found), _NOTHING)
        say(f"look at it: {page}")

    return click.command(
        "deploy",
        help=f"Make MODEL, a folder that qcnn has exported, a version of a model of {target.title}, and have it answer "
        "at an endpoint.\n\nA machine runs, and costs, from then on until `qcnn undeploy`. Deployed again with another "
        "--traffic, a version gets that share.",
    )(deploy)


def undeploy_command(target: Deploys) -> click.Command:
    """Return qcnn undeploy of a target."""

    @click.argument("endpoint", metavar="ENDPOINT")
    @form_option
    @shown_only_option
    @click.option("--yes", is_flag=True, help="Do it without asking.")
    @settings_options(target.connection, target.name, "connection")
    def undeploy(endpoint: str, form: str, dry_run: bool, yes: bool, connection: Any) -> None:
        rows = _rows(target.deployed(endpoint, connection))
        show_table(form, _HEADER, rows, _NOTHING)
        if dry_run:
            return
        confirm(len(rows) + 1, yes)
        target.undeploy(endpoint, connection)
        click.echo("deleted", err=form == "json")

    return click.command(
        "undeploy", help="Take all versions from ENDPOINT, and delete it; the models stay, and can be deployed again."
    )(undeploy)


def _rows(found: Sequence[Deployed]) -> list[tuple[str, str, str]]:
    return [(each.id, each.version, f"{each.traffic} %") for each in found]
