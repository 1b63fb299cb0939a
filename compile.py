"""Compile the pipelines, one YAML file per target: python compile.py [--image IMAGE] [--config FILE]."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from qcnn.cli.main import run
from qcnn.components.training_job import check_data
from qcnn.errors import ConfigError
from qcnn.experiment_io import as_parameters, read_file
from qcnn.fields import EXCITATIONS
from qcnn.pipelines.compiler import compile_qcnn, compile_study, compile_tuning, critical_path
from qcnn.pipelines.parts import TensorBoardLink
from qcnn.targets import targets_that
from qcnn.targets.base import Compiles
from qcnn.targets.compiled_pipeline import file_sha256


@click.command()
@click.option(
    "--image",
    metavar="IMAGE",
    help="Image of every step; pin a pushed image by its digest.  [default: that of --pod; in Kubeflow qcnn:latest]",
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
    image: str | None,
    pod: Path | None,
    config: Path | None,
    address: str,
    button: bool,
    seed_per_run: bool,
    output: Path,
) -> None:
    """Write each compiled pipeline, one file per target."""
    settings = read_file(pod, "pod") if pod else {}
    words = as_parameters(read_file(config)) if config else {}
    data = words.get("data", EXCITATIONS)
    sha256 = file_sha256(data) if check_data(data) else ""
    # Runs that have seeds of their own read the file as it is then.
    main_defaults = {**words, "data_sha256": "" if seed_per_run else sha256}
    study_defaults = {"experiment": words, "data_sha256": {data: sha256} if sha256 else {}}
    with_viewer = functools.partial(compile_qcnn, viewer=TensorBoardLink(address, button), seeded_by_run=seed_per_run)
    refusals: dict[str, ConfigError] = {}
    stale: list[Path] = []
    targets = {name: target.pipeline_target() for name, target in targets_that(Compiles).items()}
    try:
        output.mkdir(parents=True, exist_ok=True)
        for target_name, target in targets.items():
            pipelines: dict[str, tuple[Callable[..., PipelineSpec], Mapping[str, Any]]] = {
                "qcnn": (with_viewer, main_defaults),
                "study": (compile_study, study_defaults),
            }
            if target.tuner:
                pipelines["tuning"] = (compile_tuning, study_defaults)
            paths = {name: output / f"{name}-{target_name}.yaml" for name in pipelines}
            try:
                specs = {
                    name: compile_one(target, paths[name], image, settings, defaults)
                    for name, (compile_one, defaults) in pipelines.items()
                }
            except ConfigError as error:
                refusals[target_name] = error
                stale += paths.values()
                continue
            for name, spec in specs.items():
                click.echo(paths[name])
                click.echo(f"    critical path: {' > '.join(critical_path(spec))}")
        # Settings may be for one target alone; what no target takes is wrong.
        if len(refusals) == len(targets):
            raise next(iter(refusals.values()))
        # Files of an earlier call have other settings than these.
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"output: cannot be written ({error.strerror}). Given: {output}") from None
    for target_name, refusal in refusals.items():
        click.echo(f"not compiled for {target_name}: {refusal}", err=True)


if __name__ == "__main__":
    run(main)
