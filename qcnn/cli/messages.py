"""What libraries and launchers say while a command runs: hidden, or shown."""

from collections.abc import Callable

import click

from qcnn.jobs.pod_settings import Pod


def goes_on(hint: str) -> Callable[[], None]:
    """Return what says on stderr that a training which is not followed any more goes on."""
    return lambda: click.echo(f"\nnot followed any more; the training goes on. {hint}", err=True)


def warn_of_gpu_image(pod: Pod) -> None:
    """Print on stderr which image can use the GPUs that a job requests; nothing if it requests none."""
    if pod.has_gpus:
        click.echo(
            "pod.gpus: the image must have TensorFlow's CUDA libraries, and the image of the Dockerfile has none; a "
            f"process that sees no GPU ends before it makes data. Given: image {pod.image}",
            err=True,
        )
