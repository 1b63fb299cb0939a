"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE]."""

from pathlib import Path

import click

from pipelines.targets import TARGETS, compile_target


@click.command()
@click.option("--image", help="Image that every step runs in; pin a pushed one by digest.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="Folder.")
def main(image: str | None, output: Path) -> None:
    """Write one compiled pipeline per target."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        for target in TARGETS:
            path = output / f"qcnn-{target}.yaml"
            compile_target(target, path, image)
            click.echo(path)
    except OSError as error:
        raise click.ClickException(f"output: cannot be written ({error.strerror}). Given: {output}") from None


if __name__ == "__main__":
    main()
