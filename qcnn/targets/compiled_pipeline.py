"""Compiled pipelines to submit: compiled on demand, or read from a file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.atomic_files import sha256_of
from qcnn.components.training_job import check_data, with_data_file
from qcnn.errors import ConfigError, QcnnError, format_value, single_line
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.input_files import read_input
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.registry.registration_settings import RegistrationSettings, parse_registration
from qcnn.storage.copies import local_file
from qcnn.targets.base import Compiles, TargetSettings
from qcnn.targets.errors import suppress_output
from qcnn.targets.settings import ACCELERATOR_HELP, TRACKING_HELP, setting, with_variables
from qcnn.tracking.destination import pod_variables

if TYPE_CHECKING:
    from qcnn.pipelines.compiler import PipelineTarget

# Maximum bytes of a compiled pipeline, which has a few hundred kilobytes.
_MAX_BYTES = 20_000_000
# Compiles a pipeline. Parameters: path of the output file, image of all steps, and settings of the training pods.
Compile = Callable[[Path, str | None, Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineSource(TargetSettings):
    """Source of a compiled pipeline: a file, or an image and pod settings for the compiler."""

    package: Path | None = setting("Path to a compiled pipeline.", None, shown="compiled now", metavar="FILE")
    image: str | None = setting(
        "Container image of all steps. Not with --package. Pin a pushed image by its digest.",
        None,
        shown="the image of --pod",
        metavar="IMAGE",
    )
    pod: Mapping[str, Any] = setting(
        "Settings of the training pods (a YAML file on the command line). Not with --package.", {}, metavar="FILE"
    )
    accelerator: str | None = setting(f"{ACCELERATOR_HELP} Not with --package.", None, metavar="NAME")
    tracking: str | None = setting(f"{TRACKING_HELP} Not with --package.", None, metavar="mlflow:URL")

    @property
    def pod_values(self) -> dict[str, Any]:
        """Settings of the training pods. The accelerator and the tracking server override those of `pod`."""
        accelerator = {"accelerator": self.accelerator} if self.accelerator is not None else {}
        variables = pod_variables(self.tracking) if self.tracking is not None else {}
        return with_variables({**self.pod, **accelerator}, variables)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistrationFields(TargetSettings):
    """Settings of the last step of the main pipeline, which registers the model."""

    register: str | None = setting(
        "Name by which the last step registers the model, and promotes it if it is better. Needs --registry. Not with "
        "--package.",
        None,
        metavar="NAME",
    )
    registry: str | None = setting(
        "Model registry that the steps reach: a folder in a bucket, mlflow:URL, or kubeflow:URL#FOLDER.",
        None,
        metavar="ADDRESS",
    )

    def registration(self, package: Path | None) -> RegistrationSettings | None:
        """Return the name of the model and the address of the registry, or None if there is no such step.

        Args:
            package: Path of the compiled pipeline, if it is given.

        Raises:
            ConfigError: If only one of them is given, or a compiled pipeline, or if a step cannot use it.
        """
        found = parse_registration(self.register, self.registry)
        if found and package:
            given = format_value(found.name)
            raise ConfigError(f"register: must be without --package, as the compiler adds the step. Given: {given}")
        return found


def _compiler_target(target: type[Compiles]) -> PipelineTarget:
    """Return the settings of the compiler for a pipeline to submit.

    The image must be given, because the default image of compile.py is a local tag, which the cluster cannot pull.
    """
    return dataclasses.replace(target.pipeline_target(), image="")


def compile_main(
    target: type[Compiles], registration: RegistrationSettings | None, *, per_run_seed: bool = False, board: str = ""
) -> Compile:
    """Return the compiler of the main pipeline.

    Args:
        target: Target that runs the pipeline.
        registration: Registration of the model by the last step. None: there is no such step.
        per_run_seed: Whether each run gets a new seed.
        board: URL of a TensorBoard to link to, or empty.
    """

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_qcnn
        from qcnn.pipelines.parts import TensorBoardLink

        compile_qcnn(
            _compiler_target(target),
            path,
            image,
            settings,
            viewer=TensorBoardLink(board),
            registration=registration,
            per_run_seed=per_run_seed,
        )

    return compile_now


def study_pipeline(target: type[Compiles], parallelism: int) -> Compile:
    """Return the compiler of the study pipeline."""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_study

        compile_study(_compiler_target(target), path, image, settings, parallelism=parallelism)

    return compile_now


def tuning_pipeline(target: type[Compiles], parallelism: int, stopping: str) -> Compile:
    """Return the compiler of the pipeline with the target's hyperparameter tuner.

    Args:
        target: Target that runs the pipeline.
        parallelism: Maximum number of parallel trials.
        stopping: Early-stopping rule of the tuner.
    """

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_tuning

        compile_tuning(_compiler_target(target), path, image, settings, parallelism=parallelism, stopping=stopping)

    return compile_now


@dataclasses.dataclass(frozen=True)
class PipelineInputs:
    """Arguments of a pipeline, and the experiments that it trains.

    The experiments have the metadata of data files that were read, which the cost estimate needs. The arguments do not,
    because the step that reads the file resolves the fields that depend on it.
    """

    arguments: Mapping[str, Any]
    trials: Sequence[ExperimentConfig]


def main_inputs(experiment: ExperimentConfig, *, per_run_seed: bool = False) -> PipelineInputs:
    """Return the inputs of the main pipeline. Its arguments are all fields, so that runs can be compared.

    They include the SHA-256 of the data file, which is the cache key of the file's content. With `per_run_seed`,
    nothing is cached and each run reads the current file, so that it is not read here.

    Raises:
        ConfigError: If the file is unreadable for the steps, or locally, or the experiment cannot use it.
        ArtifactError: If the file has an invalid row.
    """
    sha256, trial = "", experiment
    if check_data(experiment.data) and not per_run_seed:
        sha256, metadata = _read_file(experiment)
        trial = _with_metadata(experiment, metadata)
    return PipelineInputs({**experiment.model_dump(), "data_sha256": sha256}, [trial])


def study_inputs(arguments: Mapping[str, Any], trials: Sequence[ExperimentConfig]) -> PipelineInputs:
    """Return the inputs of a study pipeline. Its arguments include the SHA-256 of each data file by URI.

    Each file is read once, with the settings of its first trial.

    Raises:
        ConfigError: If a file is unreadable for the steps, or locally.
    """
    files: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for trial in trials:
        if check_data(trial.data) and trial.data not in files:
            try:
                files[trial.data] = _read_file(trial)
            except QcnnError:
                # The error may be that of one trial, whose step stores it.
                files[trial.data] = file_sha256(trial.data), {}
    digests = {file: sha256 for file, (sha256, _) in sorted(files.items())}
    resolved = []
    for trial in trials:
        try:
            resolved.append(_with_metadata(trial, files[trial.data][1] if trial.data in files else {}))
        except ConfigError:
            resolved.append(trial)
    return PipelineInputs({**arguments, "data_sha256": digests}, resolved)


# Options that depend on the rows of a data file.
_METADATA = ("max_samples", "train_fraction", "validation_fraction")


def _read_file(experiment: ExperimentConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the SHA-256 of the data file of an experiment, and the options that its rows change.

    Without the libraries that read rows, such as in an environment that only submits, the options are empty.
    """
    try:
        resolved, sha256 = with_data_file(experiment)
    except ModuleNotFoundError:
        return file_sha256(experiment.data), {}
    options, before = resolved.options, experiment.options
    return sha256, {
        name: getattr(options, name) for name in _METADATA if getattr(options, name) != getattr(before, name)
    }


def _with_metadata(experiment: ExperimentConfig, metadata: Mapping[str, Any]) -> ExperimentConfig:
    if not (metadata and experiment.needs_row_count):
        return experiment
    return from_mapping(merge(experiment.model_dump(), metadata))


def file_sha256(uri: str) -> str:
    """Read a file and return its SHA-256.

    Raises:
        ConfigError: If the file does not exist, or the bucket denies access.
    """
    with local_file(uri) as path:
        return sha256_of(path)


@contextlib.contextmanager
def compiled_package(source: PipelineSource, compile_now: Compile) -> Iterator[Path]:
    """Context manager that yields the path of a compiled pipeline, compiled on demand.

    Raises:
        ConfigError: If a pod setting is invalid, or an accelerator is given for a file.
    """
    if source.package:
        if source.accelerator is not None:
            raise ConfigError(
                "accelerator: must be without --package, as the compiler sets the resources of the training pods. "
                f"Given: {source.accelerator}"
            )
        if source.tracking is not None:
            raise ConfigError(
                "tracking: must be without --package, as the compiler sets the environment of the pods. "
                f"Given: {source.tracking}"
            )
        yield source.package
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        with suppress_output():
            compile_now(path, source.image, source.pod_values)
        yield path


@contextlib.contextmanager
def compile_for_schedule(
    source: PipelineSource, registration: RegistrationSettings | None, target: type[Compiles]
) -> Iterator[Path]:
    """Context manager that yields a compiled main pipeline with a new seed for each run.

    Args:
        source: Source of the pipeline.
        registration: Registration of the model by the last step, or None.
        target: Target that runs the pipeline.

    Raises:
        ConfigError: If the given file is not the main pipeline, or a pod setting is invalid.
    """
    with compiled_package(source, compile_main(target, registration, per_run_seed=True)) as package:
        if not source.package:
            yield package
            return
        with suppress_output():
            import yaml

            from qcnn.pipelines.parts import per_run_seed

        pipeline, *platform = read_package(package, target)
        try:
            documents = [per_run_seed(pipeline), *platform]
        except LookupError:
            raise ConfigError(
                f"package: must be the main pipeline, as compiled by compile.py. Given: {package}"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "scheduled.yaml")
            path.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
            yield path


def read_package(package: Path, target: type[Compiles]) -> list[dict[str, Any]]:
    """Return the documents of a compiled pipeline: the pipeline, then platform settings.

    Raises:
        ConfigError: If the file cannot be read, is not a pipeline, or is compiled for another target.
    """
    import yaml

    text = read_input("package", package, _MAX_BYTES)
    try:
        documents = [dict(document) for document in yaml.safe_load_all(text)]
        if documents and "tasks" in documents[0]["root"]["dag"]:
            _check_target(package, documents, target)
            return documents
        reason = "it contains no pipeline"
    except (ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        reason = single_line(error)
    raise ConfigError(f"package: must be a pipeline compiled by compile.py ({reason}). Given: {package}")


def _check_target(package: Path, documents: Sequence[Mapping[str, Any]], target: type[Compiles]) -> None:
    """Raise ConfigError if the number of platform documents shows that the target is another one."""
    if (len(documents) > 1) != (target.pipeline_target().platform is not None):
        raise ConfigError(
            f"package: must be compiled for {target.name}, like compile.py's files NAME-{target.name}.yaml. "
            f"Given: {package}"
        )


def check_arguments(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise ConfigError if a compiled pipeline has no parameter for an argument.

    Raises:
        ConfigError: If it is another pipeline, or was compiled by an earlier version.
    """
    known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    if unknown := sorted(arguments.keys() - known.keys()):
        raise ConfigError(
            f"package: the pipeline has no parameter {', '.join(unknown)}. Given: {format_value(sorted(known))}"
        )


def pod_settings_in(spec: Mapping[str, Any]) -> PodSettings | None:
    """Return the settings of the training pods in a compiled pipeline, or None if it has none."""
    for component in (spec["root"], *spec["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            value = task.get("inputs", {}).get("parameters", {}).get("pod", {}).get("runtimeValue", {}).get("constant")
            if value is not None:
                return pod_settings(json.loads(value))
    return None


def step_names(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of all steps of a compiled pipeline, including steps in loops."""
    components = spec["components"]
    return frozenset(
        name
        for component in (spec["root"], *components.values())
        for name, task in component.get("dag", {}).get("tasks", {}).items()
        if "executorLabel" in components[task["componentRef"]["name"]]
    )
