"""qcnn deploy --target vertex: an exported model answers at an endpoint of Vertex AI."""

from __future__ import annotations

import datetime
import functools
import json
import re

import click

from qcnn.cli.options.form import form_option, show_table
from qcnn.cli.options.settings import place_options
from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.references import check_image
from qcnn.jobs.vertex.location import Place, endpoint_page
from qcnn.targets.artifacts import models_of
from qcnn.targets.vertex import model_registry
from qcnn.targets.vertex.client import Vertex
from qcnn.targets.vertex.endpoints import (
    MACHINE,
    TABLE_HEADER,
    Machines,
    create_request,
    deploy_request,
    deployed_id,
    endpoint_name,
    endpoint_of,
    get_endpoint,
    rolled_back,
    set_traffic,
    shared,
    table_rows,
    undeploy,
    without,
)
from qcnn.targets.vertex.endpoints import deploy as deploy_version
from qcnn.targets.vertex.model_registry import (
    Exported,
    exported,
    get_version,
    make_default,
    model_name,
    stage,
    upload_request,
    version_of,
)
from qcnn.targets.vertex.runs import artifacts_of, find_run

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_SHARE = 10


@click.command()
@click.argument("model", required=False)
@click.option(
    "--endpoint", "answering", required=True, metavar="NAME", help="Endpoint to answer at, made if it is not there."
)
@click.option(
    "--model-name", "called", default="qcnn", show_default=True, metavar="NAME", help="Model of which it is a version."
)
@click.option(
    "--traffic",
    type=click.IntRange(1, 100),
    default=_SHARE,
    show_default=True,
    help="Percent of the requests that the version gets; the only one gets all.",
)
@click.option("--run", metavar="RUN", help="Instead of MODEL, the one that a run has exported.")
@click.option("--rollback", is_flag=True, help="Take the newest version away; those before it get its traffic.")
@click.option("--staging", metavar="URL", help="gs://BUCKET/FOLDER to which a MODEL of this machine is copied.")
@click.option("--serving-image", metavar="IMAGE", help="Image that serves it.  [default: Google's newest]")
@click.option("--machine-type", default=MACHINE, show_default=True, help="Machine type that answers.")
@click.option("--least", type=click.IntRange(1), default=1, show_default=True, help="Machines that always run.")
@click.option("--most", type=click.IntRange(1), default=1, show_default=True, help="Machines under load.")
@click.option("--service-account", metavar="ADDRESS", help="Google service account that the version runs as.")
@click.option("--dry-run", is_flag=True, help="Print the requests for a new endpoint as JSON, and send nothing.")
@form_option
@place_options
def deploy(
    model: str | None,
    answering: str,
    called: str,
    traffic: int,
    run: str | None,
    rollback: bool,
    staging: str | None,
    serving_image: str | None,
    machine_type: str,
    least: int,
    most: int,
    service_account: str | None,
    dry_run: bool,
    form: str,
    place: Place,
) -> None:
    """Make MODEL, a folder that qcnn has exported, a version of a model, and have it answer at an endpoint.

    A machine runs, and costs, from then on until `qcnn undeploy`. Deployed again with another --traffic, a version gets
    that share.
    """
    for option, name in (("endpoint", answering), ("model-name", called)):
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{option}: must be 1 to 63 small letters, digits and hyphens, a letter first. Given: {name}"
            )
    given = {"MODEL": model, "--run": run, "--rollback": rollback}
    if len(words := [word for word, value in given.items() if value]) != 1:
        raise ConfigError(f"deploy: takes one of {', '.join(given)}. Given: {' '.join(words) or 'none'}")
    if least > most:
        raise ConfigError(f"least: must not be above --most, {most}. Given: {least}")
    if serving_image is not None:
        check_image("serving_image", serving_image)
    vertex = Vertex(place)
    # Where JSON alone is to be on stdout, what is told besides stands on stderr.
    say = functools.partial(click.echo, err=form == "json")
    if rollback:
        say(_rolled_back(vertex, answering))
        _show(vertex, answering, form)
        return
    if not serving_image and (said := model_registry.warning(datetime.date.today())):
        click.echo(f"warning: {said}", err=True)
    found = exported(model or _model_of(vertex, run or ""), staging)
    image = serving_image or model_registry.image_in(place.location)
    machines = Machines(machine_type, least, most)
    if dry_run:
        _show_requests(vertex, answering, called, found, image, machines, service_account)
        return
    stage(found)
    version = version_of(vertex, called, found, image, say)
    at = endpoint_of(vertex, answering, say)
    name = f"{version.name}@{version.version_id}"
    shares = shared(dict(at.traffic_split), deployed_id(name), traffic)
    if any(each.id == deployed_id(name) for each in at.deployed_models):
        set_traffic(vertex, at.name, shares)
    else:
        say("it is deployed, which takes minutes")
        deploy_version(
            vertex, deploy_request(at.name, version.name, version.version_id, machines, service_account, shares)
        )
    _show(vertex, answering, form)


def _model_of(vertex: Vertex, run: str) -> str:
    """Return the address of the model that a run has exported."""
    models = models_of(artifacts_of(find_run(vertex, run)))
    if len(models) != 1:
        raise ArtifactError(f"run: must have exported one model. Given: {len(models)} of {run}")
    return models[0]


def _rolled_back(vertex: Vertex, endpoint: str) -> str:
    """Take the newest version away; return what is to be told of it."""
    at = get_endpoint(vertex, endpoint)
    bad, good = rolled_back(at)
    undeploy(vertex, at.name, bad.id, without(dict(at.traffic_split), bad.id, good.id))
    make_default(vertex, get_version(vertex, f"{good.model}@{good.model_version_id}"))
    return f"{bad.display_name} is taken away; {good.display_name} is the default version again"


def _show(vertex: Vertex, endpoint: str, form: str) -> None:
    show_table(form, TABLE_HEADER, table_rows(get_endpoint(vertex, endpoint)), "no version is deployed")
    click.echo(f"look at it: {endpoint_page(vertex.place, endpoint)}", err=form == "json")


def _show_requests(
    vertex: Vertex, endpoint: str, name: str, found: Exported, image: str, machines: Machines, account: str | None
) -> None:
    """Print the requests of a first version at a new endpoint, checked by the types of the API."""
    from qcnn.jobs.vertex.client import aiplatform

    first = model_name(vertex, name)
    shares = {deployed_id(f"{first}@1"): 100}
    requests = (
        aiplatform.UploadModelRequest(upload_request(vertex, name, found, image, is_first=True)),
        aiplatform.CreateEndpointRequest(create_request(vertex, endpoint)),
        aiplatform.DeployModelRequest(
            deploy_request(endpoint_name(vertex, endpoint), first, "1", machines, account, shares)
        ),
    )
    shown = {type(each).__name__: type(each).to_dict(each, including_default_value_fields=False) for each in requests}
    click.echo(json.dumps(shown, indent=2))
