"""Compile the pipelines to one YAML file per target: python compile.py [--image IMAGE] [--config FILE]."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from qcnn.cli.main import run
from qcnn.components.training_job import check_data
from qcnn.errors import ConfigError
from qcnn.experiment.fields import EXCITATIONS
from qcnn.experiment.parsing import as_parameters
from qcnn.jobs.engines import AUTO, ENGINES
from qcnn.pipelines.compiler import compile_qcnn, compile_study, compile_tuning, critical_path
from qcnn.pipelines.parts import TensorBoardLink
from qcnn.registry.registration_settings import parse_registration
from qcnn.targets import target_classes
from qcnn.targets.base import Compiles
from qcnn.targets.compiled_pipeline import file_sha256
from qcnn.yaml_files import read_file


@click.command()
@click.option(
    "--image",
    metavar="IMAGE",
    help="Container image of all steps. Pin a pushed image by digest.  [default: that of --pod; in KFP qcnn:latest]",
)
@click.option("--pod", type=click.Path(path_type=Path), metavar="FILE", help="Path to a pod settings file (YAML).")
@click.option(
    "--engine",
    type=click.Choice([AUTO, *ENGINES]),
    help="Engine of the training jobs on Kubernetes.  [default: that of --pod; auto]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Path to an experiment file (YAML) with the defaults of the pipeline parameters.",
)
@click.option(
    "--tensorboard", "tensorboard_url", default="", metavar="URL", help="URL of a TensorBoard to link in the run."
)
@click.option(
    "--tensorboard-button",
    "button",
    is_flag=True,
    help="Add a button that starts TensorBoard in the UI of multi-user KFP.",
)
@click.option(
    "--register",
    "registered_name",
    metavar="NAME",
    help="Add a last step that registers the model by this name, and promotes it if it is better. Needs --registry.",
)
@click.option(
    "--registry",
    metavar="URI",
    help="Model registry: a folder in a bucket or on a volume of the steps, mlflow:URL, or kubeflow:URL#FOLDER.",
)
@click.option(
    "--seed-per-run",
    is_flag=True,
    help="Derive the seed of each run from its ID and the seed of the experiment, for recurring runs of the UI.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    metavar="FOLDER",
    help="Folder of the compiled pipelines.",
)
def main(
    image: str | None,
    pod: Path | None,
    engine: str | None,
    config: Path | None,
    tensorboard_url: str,
    button: bool,
    registered_name: str | None,
    registry: str | None,
    seed_per_run: bool,
    output: Path,
) -> None:
    """Compile the pipelines to one YAML file per target."""
    settings = {**(read_file(pod, "pod") if pod else {}), **({"engine": engine} if engine else {})}
    fields = as_parameters(read_file(config)) if config else {}
    data = fields.get("data", EXCITATIONS)
    sha256 = file_sha256(data) if check_data(data) else ""
    # Recurring runs read the current data file, whose digest may differ.
    main_defaults = {**fields, "data_sha256": "" if seed_per_run else sha256}
    study_defaults = {"experiment": fields, "data_sha256": {data: sha256} if sha256 else {}}
    viewer = TensorBoardLink(tensorboard_url, button)
    registration = parse_registration(registered_name, registry)
    compile_main = functools.partial(compile_qcnn, viewer=viewer, registration=registration, per_run_seed=seed_per_run)
    errors: dict[str, ConfigError] = {}
    stale: list[Path] = []
    targets = {name: kind.pipeline_target() for name, kind in target_classes(Compiles).items()}
    try:
        output.mkdir(parents=True, exist_ok=True)
        for target_name, target in targets.items():
            pipelines: dict[str, tuple[Callable[..., PipelineSpec], Mapping[str, Any]]] = {
                "qcnn": (compile_main, main_defaults),
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
                errors[target_name] = error
                stale += paths.values()
                continue
            for name, spec in specs.items():
                click.echo(paths[name])
                click.echo(f"    critical path: {' > '.join(critical_path(spec))}")
        # Pod settings may be valid for some targets only.
        if len(errors) == len(targets):
            raise next(iter(errors.values()))
        # Files of an earlier call have different settings.
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"output: cannot be written ({error.strerror}). Given: {output}") from None
    for target_name, reason in errors.items():
        click.echo(f"not compiled for {target_name}: {reason}", err=True)


if __name__ == "__main__":
    run(main)
