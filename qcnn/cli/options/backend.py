"""Where a pipelines backend is, as flags."""

from __future__ import annotations

import click

from qcnn.cli.kubeflow.backend import Backend
from qcnn.cli.options.group import options_as

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
