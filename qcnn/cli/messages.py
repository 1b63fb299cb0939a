"""What libraries and launchers say while a command runs: hidden, or shown."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import click

from qcnn.jobs.pod_settings import Pod


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what a client prints and warns of: it speaks of its own code."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Show the messages of a launcher on stderr."""
    logger = logging.getLogger("qcnn")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def warn_of_gpu_image(pod: Pod) -> None:
    """Print on stderr which image can use the GPUs that a job requests; nothing if it requests none."""
    if pod.has_gpus:
        click.echo(
            "pod.gpus: the image must have TensorFlow's CUDA libraries, and the image of the Dockerfile has none; a "
            f"process that sees no GPU ends before it makes data. Given: image {pod.image}",
            err=True,
        )
