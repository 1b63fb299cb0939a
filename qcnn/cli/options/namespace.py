"""The namespace of a cluster, as a flag."""

from collections.abc import Callable
from typing import Any

import click

from qcnn.jobs.references import check_namespace


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
