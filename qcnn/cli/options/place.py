"""Where on Vertex AI a command asks, as flags."""

from __future__ import annotations

import os

import click

from qcnn.cli.options.group import options_as
from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE, Place, endpoint_of


def _place(project: str | None, location: str | None, endpoint: str | None) -> Place:
    for name, value in (("project", project), ("location", location)):
        if not value:
            raise ConfigError(f"{name}: must be given, by --{name} or the environment. Given: none")
    return Place(project or "", location or "", endpoint or endpoint_of(os.environ))


# Gives a command the options that a `Place` is made of, and hands it `place`. The variables are those of Google's own
# libraries, then gcloud's.
place_options = options_as(
    "place",
    _place,
    click.option(
        "--project",
        envvar=["GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"],
        show_envvar=True,
        metavar="ID",
        help="Google Cloud project.",
    ),
    click.option(
        "--location",
        envvar=["GOOGLE_CLOUD_REGION", "CLOUDSDK_AI_REGION"],
        show_envvar=True,
        metavar="REGION",
        help="Region, such as us-central1.",
    ),
    click.option(
        "--api-endpoint",
        "endpoint",
        metavar="HOST",
        help=f"Another API endpoint, HOST[:PORT].  [env var: {ENDPOINT_VARIABLE}]",
    ),
)
