"""qcnn undeploy --target vertex: an endpoint that answers no more, and costs nothing."""

import click
from tabulate import tabulate

from cli.confirmation import confirm
from cli.vertex.service.connection import Vertex, place_options
from cli.vertex.serving.endpoint import get_endpoint, set_traffic, table_rows
from cli.vertex.serving.endpoint import undeploy as undeploy_version
from launchers.vertex.place import Place


@click.command()
@click.argument("name", metavar="ENDPOINT")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@place_options
def undeploy(name: str, yes: bool, place: Place) -> None:
    """Take all versions from ENDPOINT, and delete it; the models stay, and can be deployed again."""
    vertex = Vertex(place)
    found = get_endpoint(vertex, name)
    rows = table_rows(found)
    click.echo(tabulate(rows, headers=("id", "version", "traffic"), disable_numparse=True))
    confirm(len(rows) + 1, yes)
    if found.traffic_split:
        set_traffic(vertex, found.name, {})
    for deployed in found.deployed_models:
        undeploy_version(vertex, found.name, deployed.id)
    vertex.delete("EndpointService.delete_endpoint", found.name)
    click.echo("deleted")
