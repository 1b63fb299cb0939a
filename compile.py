"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE] [--config FILE]."""

import functools
from collections.abc import Callable
from pathlib import Path

import click
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from components.image import IMAGE
from components.train.description import check_data
from pipelines.compilation import compile_qcnn, compile_study, compile_tuning
from pipelines.critical_path import critical_path
from pipelines.targets import TARGETS
from pipelines.viewing import Viewer
from trainer.config import EXCITATIONS, as_parameters, read_file
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
@click.option(
    "--seed-per-run",
    is_flag=True,
    help="Derive each run's seed from its ID and the experiment's seed, for recurring runs made in the interface.",
)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="Folder.")
def main(
    image: str, pod: Path | None, config: Path | None, address: str, button: bool, seed_per_run: bool, output: Path
) -> None:
    """Write each compiled pipeline, one file per target."""
    try:
        settings = read_file(pod, "pod") if pod else {}
        words = as_parameters(read_file(config)) if config else {}
        check_data(words.get("data", EXCITATIONS))
        output.mkdir(parents=True, exist_ok=True)
        with_viewer = functools.partial(compile_qcnn, viewer=Viewer(address, button), seeded_by_run=seed_per_run)
        refusals: dict[str, ConfigError] = {}
        for target_name, target in TARGETS.items():
            pipelines: dict[str, Callable[..., PipelineSpec]] = {
                "qcnn": with_viewer,
                "qcnn-own-data": functools.partial(with_viewer, own_data=True),
                "study": compile_study,
            }
            if target.tuner:
                pipelines["tuning"] = compile_tuning
            for name, compile_one in pipelines.items():
                path = output / f"{name}-{target_name}.yaml"
                try:
                    spec = compile_one(target, path, image, settings, words)
                except ConfigError as error:
                    refusals[target_name] = error
                    break
                click.echo(path)
                click.echo(f"    critical path: {' > '.join(critical_path(spec))}")
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"output: cannot be written ({error.strerror}). Given: {output}") from None
    # Settings may be for one target alone; what no target takes is wrong.
    if len(refusals) == len(TARGETS):
        raise click.ClickException(str(next(iter(refusals.values()))))
    for target_name, refusal in refusals.items():
        click.echo(f"not compiled for {target_name}: {refusal}", err=True)


if __name__ == "__main__":
    main()
