"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE] [--config FILE]."""

import functools
from pathlib import Path

import click

from components.image import IMAGE
from pipelines.compilation import compile_qcnn, compile_study
from pipelines.critical_path import critical_path
from pipelines.targets import TARGETS
from pipelines.viewing import Viewer
from trainer.config import as_parameters, read_file
from trainer.errors import ConfigError


@click.command()
@click.option(
    "--image", default=IMAGE, show_default=True, help="Image of every step; pin a pushed image by its digest."
)
@click.option(
    "--pod", type=click.Path(path_type=Path), metavar="FILE", help="YAML file with settings of the training's pods."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Experiment, as for qcnn run, whose words are the parameters' defaults.",
)
@click.option(
    "--tensorboard", "address", default="", metavar="URL", help="TensorBoard that shows all logs, to be linked."
)
@click.option(
    "--tensorboard-button", "button", is_flag=True, help="Let the interface of a backend with several users start one."
)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="Folder.")
def main(image: str, pod: Path | None, config: Path | None, address: str, button: bool, output: Path) -> None:
    """Write each compiled pipeline, one file per target."""
    try:
        settings = read_file(pod, "pod") if pod else {}
        words = as_parameters(read_file(config)) if config else {}
        output.mkdir(parents=True, exist_ok=True)
        with_viewer = functools.partial(compile_qcnn, viewer=Viewer(address, button))
        for target_name, target in TARGETS.items():
            for name, compile_one in (("qcnn", with_viewer), ("study", compile_study)):
                path = output / f"{name}-{target_name}.yaml"
                spec = compile_one(target, path, image, settings, words)
                click.echo(path)
                click.echo(f"    critical path: {' > '.join(critical_path(spec))}")
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"output: cannot be written ({error.strerror}). Given: {output}") from None


if __name__ == "__main__":
    main()
