"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE]."""

from pathlib import Path

import click

from pipelines.targets import IMAGE, TARGETS, ConfigError, compile_target, read_settings


@click.command()
@click.option("--image", default=IMAGE, show_default=True, help="Of every step; pin a pushed one by digest.")
@click.option(
    "--pod", type=click.Path(path_type=Path), metavar="FILE", help="YAML file with settings of the training's pods."
)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="Folder.")
def main(image: str, pod: Path | None, output: Path) -> None:
    """Write one compiled pipeline per target."""
    try:
        settings = read_settings(pod) if pod else {}
        output.mkdir(parents=True, exist_ok=True)
        for target in TARGETS:
            path = output / f"qcnn-{target}.yaml"
            compile_target(target, path, image, settings)
            click.echo(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"output: cannot be written ({error.strerror}). Given: {output}") from None


if __name__ == "__main__":
    main()
