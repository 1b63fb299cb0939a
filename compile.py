"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE] [--config FILE]."""

import functools
from pathlib import Path

import click

from pipelines.critical_path import critical_path
from pipelines.targets import (
    IMAGE,
    TARGETS,
    ConfigError,
    Viewer,
    compile_study,
    compile_target,
    read_defaults,
    read_settings,
)


@click.command()
@click.option("--image", default=IMAGE, show_default=True, help="Of every step; pin a pushed one by digest.")
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
        settings = read_settings(pod) if pod else {}
        words = read_defaults(config) if config else {}
        output.mkdir(parents=True, exist_ok=True)
        of_qcnn = functools.partial(compile_target, viewer=Viewer(address, button))
        for target in TARGETS:
            for name, compile_one in (("qcnn", of_qcnn), ("study", compile_study)):
                path = output / f"{name}-{target}.yaml"
                spec = compile_one(target, path, image, settings, words)
                click.echo(path)
                click.echo(f"    critical path: {' > '.join(critical_path(spec))}")
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"output: cannot be written ({error.strerror}). Given: {output}") from None


if __name__ == "__main__":
    main()
