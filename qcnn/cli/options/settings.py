"""Where commands ask and what they send, as flags: backend, place, namespace, compiled pipeline, runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from qcnn.cli.options.base import options_as
from qcnn.errors import ConfigError
from qcnn.jobs.references import check_namespace
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE, Place, endpoint_of
from qcnn.targets.compiled_pipeline import Source
from qcnn.targets.kubeflow.client import Backend

# Gives a command the options that a `Backend` is made of, and hands it `backend`. Kubeflow's own client reads
# KF_PIPELINES_... too, its command line KFP_....
backend_options = options_as(
    "backend",
    Backend,
    click.option(
        "--host",
        envvar="KF_PIPELINES_ENDPOINT",
        metavar="URL",
        help="Where the backend is.  [default: by KUBECONFIG; in a pod, its cluster]",
    ),
    click.option(
        "--namespace", "-n", envvar="KFP_NAMESPACE", metavar="NAME", help="Yours, where the backend has several users."
    ),
    click.option(
        "--ui-host",
        envvar="KF_PIPELINES_UI_ENDPOINT",
        metavar="URL",
        help="Where its web interface is.  [default: host]",
    ),
    click.option("--token", envvar="KFP_EXISTING_TOKEN", metavar="TEXT", help="Bearer token."),
    click.option("--cookies", envvar="KFP_COOKIES", metavar="TEXT", help="Cookies of a login, as NAME=VALUE."),
    click.option(
        "--iap-client-id",
        envvar="KF_PIPELINES_IAP_OAUTH2_CLIENT_ID",
        metavar="ID",
        help="Client of Google's Identity-Aware Proxy.",
    ),
    click.option(
        "--oauth-client-id",
        envvar="KF_PIPELINES_APP_OAUTH2_CLIENT_ID",
        metavar="ID",
        help="Client by which a person logs in to that proxy.",
    ),
    click.option(
        "--oauth-client-secret",
        envvar="KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET",
        metavar="TEXT",
        help="Its secret.",
    ),
    click.option("--ca-cert", metavar="FILE", help="Certificates that sign the host's."),
)

metadata_host_option = click.option(
    "--metadata-host", metavar="URL", help="Where the backend's metadata store is.  [default: its web interface]"
)


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


def namespace_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --namespace."""
    return click.option(
        *("--namespace", "-n"),
        metavar="NAME",
        callback=_checked,
        help="Namespace. [default: that of the kubeconfig's context]",
    )(command)


def _checked(_: click.Context, __: click.Parameter, namespace: str | None) -> str | None:
    if namespace is not None:
        check_namespace(namespace)
    return namespace


# Gives a command the options that a `Source` is made of, and hands it `source`.
source_options = options_as(
    "source",
    Source,
    click.option(
        "--package",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Compiled pipeline, as compile.py writes it.  [default: compiled now]",
    ),
    click.option(
        "--image",
        metavar="IMAGE",
        help="Image of every step, if the pipeline is compiled now; pin a pushed image by its digest.  "
        "[default: that of --pod; in Kubeflow qcnn:latest]",
    ),
    click.option(
        "--pod",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings of the training's pods, if the pipeline is compiled now.",
    ),
)


runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
wait_option = click.option(
    "--wait", is_flag=True, help="Show the steps' states until the run has ended; fail where it fails."
)
