"""qcnn serve: server of exported models."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.registry import registry_option
from qcnn.errors import ConfigError, format_value

if TYPE_CHECKING:
    from qcnn.serving.versions import ModelSource

_DEFAULT_NAME = "model"


def sources_of(models: tuple[str, ...], versions: str, registry: str | None) -> dict[str, ModelSource]:
    """Return the path or URI of each model by name, and its versions to load.

    Args:
        models: Arguments of the command, [NAME=]MODEL.
        versions: Option --versions.
        registry: Path or URI of the registry of registered models, or None for the default.

    Raises:
        ArtifactError: If a registered model, label or version does not exist.
        ConfigError: If a name is invalid or occurs twice.
    """
    # These imports load NumPy.
    from qcnn.serving.versions import ModelSource, check_name, parse_policy

    policy = parse_policy(versions)
    sources: dict[str, ModelSource] = {}
    for text in models:
        name, separator, source = text.partition("=")
        is_named = separator and "/" not in name
        if not is_named:
            # A path may contain the sign.
            source = text
        registered = _registered(source, registry)
        default, found = registered or (_DEFAULT_NAME, ModelSource(source, policy))
        name = name if is_named else default
        if check_name(name) in sources:
            raise ConfigError(f"name: must be different for each model. Given: {format_value(name)} twice")
        if not source:
            raise ConfigError(f"model: must be a folder or bucket. Given: {format_value(text)}")
        sources[name] = found
    return sources


def _registered(text: str, registry: str | None) -> tuple[str, ModelSource] | None:
    """Return the name and the source of a registered model, or None for a path or URI."""
    if "@" not in text:
        return None
    # This import loads the stores.
    from qcnn.registry.address import open_registry
    from qcnn.registry.references import parse_reference, resolve
    from qcnn.serving.versions import VersionPolicy

    if (reference := parse_reference(text)) is None:
        return None
    with contextlib.closing(open_registry(registry)) as opened:
        resolve(opened, reference)
        only = frozenset() if reference.version is None else frozenset({reference.version})
        policy = VersionPolicy(only=only, label=reference.label)
        return reference.name, opened.source(reference.name, policy)


@click.command()
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Interface to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True, help="Port. 0: any free port.")
@click.option(
    "--versions",
    default="latest:1",
    show_default=True,
    metavar="latest:N|all|N,...",
    help="Versions to load of each model.",
)
@click.option(
    "--poll-seconds",
    type=click.FloatRange(0.05, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two searches for new versions and labels.",
)
@click.option("--batching/--no-batching", default=True, show_default=True, help="Predict concurrent requests together.")
@click.option(
    "--max-body-mib", type=click.IntRange(1, 1024), default=64, show_default=True, help="Maximum size of a request."
)
@click.option(
    "--max-rows",
    type=click.IntRange(1, 10_000_000),
    default=100_000,
    show_default=True,
    help="Maximum rows of a request.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Maximum requests at the same time. Others receive status code 503.",
)
@click.option(
    "--timeout-seconds",
    type=click.FloatRange(0.1, 3600),
    default=60.0,
    show_default=True,
    help="Maximum seconds for the body of a request, and for its prediction.",
)
@click.option(
    "--drain-seconds",
    type=click.IntRange(1, 3600),
    default=30,
    show_default=True,
    help="Maximum seconds for open requests after SIGTERM.",
)
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that share the port."
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of gRPC, 0 for any free port. Default: none.",
)
@registry_option
@click.option("--trust", is_flag=True, help="Import the Python modules of models that are functions.")
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    versions: str,
    poll_seconds: float,
    batching: bool,
    max_body_mib: int,
    max_rows: int,
    max_requests: int,
    timeout_seconds: float,
    drain_seconds: int,
    processes: int,
    grpc_port: int | None,
    registry: str | None,
    trust: bool,
) -> None:
    """Serve exported models over HTTP and gRPC.

    MODEL is the folder of a run, a model, or numbered versions of a model, or a bucket URI of one, or a registered
    model with a label or version, as NAME@champion or NAME@2. The protocols are
    the REST interface of TensorFlow Serving and the Open Inference Protocol. There is no authentication and no TLS.
    """
    # These imports load NumPy and the server.
    from qcnn.serving.request_predictions import Limits
    from qcnn.serving.server import ServerSettings, bind, log_to_stderr, reserve, serve_in_processes
    from qcnn.serving.server import serve as serve_here

    log_to_stderr()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(host, port))
        grpc_address = None
        if grpc_port is not None:
            reserved, grpc_address = reserve(host, grpc_port)
            stack.enter_context(reserved)
        settings = ServerSettings(
            sources=sources_of(models, versions, registry),
            poll_seconds=poll_seconds,
            limits=Limits(max_body_mib * 2**20, max_rows, timeout_seconds, max_requests),
            batching=batching,
            trust=trust,
            threads=max(1, (os.cpu_count() or 1) // processes),
            drain_seconds=drain_seconds,
            grpc_address=grpc_address,
        )
        if processes == 1:
            serve_here(settings, listener)
        else:
            serve_in_processes(settings, listener, processes)
