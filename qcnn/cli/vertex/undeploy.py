"""qcnn undeploy --target vertex: an endpoint that answers no more, and costs nothing."""

import click

from qcnn.cli.options.form import form_option, show_table, shown_only_option
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import confirm
from qcnn.jobs.vertex.location import Place
from qcnn.targets.vertex.client import Vertex
from qcnn.targets.vertex.endpoints import TABLE_HEADER, get_endpoint, set_traffic, table_rows
from qcnn.targets.vertex.endpoints import undeploy as undeploy_version


@click.command()
@click.argument("name", metavar="ENDPOINT")
@form_option
@shown_only_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
@place_options
def undeploy(name: str, form: str, dry_run: bool, yes: bool, place: Place) -> None:
    """Take all versions from ENDPOINT, and delete it; the models stay, and can be deployed again."""
    vertex = Vertex(place)
    found = get_endpoint(vertex, name)
    rows = table_rows(found)
    show_table(form, TABLE_HEADER, rows, "no version is deployed")
    if dry_run:
        return
    confirm(len(rows) + 1, yes)
    if found.traffic_split:
        set_traffic(vertex, found.name, {})
    for deployed in found.deployed_models:
        undeploy_version(vertex, found.name, deployed.id)
    vertex.delete("EndpointService.delete_endpoint", found.name)
    click.echo("deleted", err=form == "json")
