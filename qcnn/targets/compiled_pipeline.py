"""Compiled pipelines that are submitted: compiled now, or a file that was compiled before."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.atomic_files import sha256_of
from qcnn.components.training_job import check_data
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.storage.copies import local_file
from qcnn.targets.base import Compiles
from qcnn.targets.errors import suppress_output
from qcnn.targets.settings import setting

# Writes a pipeline to a path, every step in an image, with settings of the training's pods.
Compile = Callable[[Path, str | None, Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineSource:
    """Where a compiled pipeline comes from: a file; or the compiler, given an image and the settings of pods."""

    package: Path | None = setting(
        "Compiled pipeline, as compile.py writes it.", None, shown="compiled now", metavar="FILE"
    )
    image: str | None = setting(
        "Image of every step, if the pipeline is compiled now; pin a pushed image by its digest.",
        None,
        shown="that of --pod; in Kubeflow qcnn:latest",
        metavar="IMAGE",
    )
    pod: Mapping[str, Any] = setting(
        "Settings of the training's pods, if the pipeline is compiled now; for the command a YAML file.",
        {},
        metavar="FILE",
    )


def compile_main(target: Compiles, *, seeded_by_run: bool = False, board: str = "") -> Compile:
    """Return what compiles the main pipeline for a target; `board` is the address of a TensorBoard to be linked."""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_qcnn
        from qcnn.pipelines.parts import TensorBoardLink

        compile_qcnn(
            target.pipeline_target(), path, image, settings, viewer=TensorBoardLink(board), seeded_by_run=seeded_by_run
        )

    return compile_now


def study_pipeline(target: Compiles, parallelism: int) -> Compile:
    """Return what compiles the study for a target."""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_study

        compile_study(target.pipeline_target(), path, image, settings, parallelism=parallelism)

    return compile_now


def tuning_pipeline(target: Compiles, parallelism: int, stopping: str) -> Compile:
    """Return what compiles the study of a target's own tuner."""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_tuning

        compile_tuning(target.pipeline_target(), path, image, settings, parallelism=parallelism, stopping=stopping)

    return compile_now


def main_arguments(experiment: ExperimentConfig, *, seeded_by_run: bool = False) -> dict[str, Any]:
    """Return what the main pipeline is given: every word, so that the runs of an experiment can be compared.

    Beside them stands the SHA-256 of the file that `data` names, which is read for it; not where runs have seeds of
    their own: nothing is cached there, and each reads the file as it is then.

    Raises:
        ConfigError: the steps could not read the file, or it cannot be read here.
    """
    is_read = check_data(experiment.data) and not seeded_by_run
    return {**experiment.model_dump(), "data_sha256": file_sha256(experiment.data) if is_read else ""}


def study_arguments(arguments: Mapping[str, Any], trials: Sequence[ExperimentConfig]) -> dict[str, Any]:
    """Return what a study is given: its arguments, and the SHA-256 of each file that trials read, by its address.

    Raises:
        ConfigError: as `main_arguments`.
    """
    files = sorted({trial.data for trial in trials if check_data(trial.data)})
    return {**arguments, "data_sha256": {file: file_sha256(file) for file in files}}


def file_sha256(address: str) -> str:
    """Return the SHA-256 of a file, after reading it once.

    Raises:
        ConfigError: the bucket refuses, or the address names no file.
    """
    with local_file(address) as path:
        return sha256_of(path)


@contextlib.contextmanager
def compiled(source: PipelineSource, compile_now: Compile) -> Iterator[Path]:
    """Yield a compiled pipeline: the file that is given, or one made now.

    Raises:
        ConfigError: a setting of the pods is wrong.
    """
    if source.package:
        yield source.package
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        with suppress_output():
            compile_now(path, source.image, source.pod)
        yield path


@contextlib.contextmanager
def compile_for_schedule(source: PipelineSource, target: Compiles) -> Iterator[Path]:
    """Yield a compiled main pipeline, each of whose runs has a seed of its own.

    Raises:
        ConfigError: the given file does not hold the main pipeline, or a setting of the pods is wrong.
    """
    with compiled(source, compile_main(target, seeded_by_run=True)) as package:
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
                f"package: must be the main pipeline, as compile.py writes it. Given: {package}"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "scheduled.yaml")
            path.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
            yield path


def read_package(package: Path, target: Compiles) -> list[dict[str, Any]]:
    """Return the documents of a pipeline compiled for a target, first the pipeline, then what a platform adds.

    Raises:
        ConfigError: the file holds no pipeline, or one that was compiled for another target.
    """
    import yaml

    try:
        documents = [dict(document) for document in yaml.safe_load_all(package.read_text(encoding="utf-8"))]
        if documents and "tasks" in documents[0]["root"]["dag"]:
            _check_target(package, documents, target)
            return documents
        reason = "no pipeline in it"
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        reason = single_line(error)
    raise ConfigError(f"package: must be a pipeline that compile.py wrote ({reason}). Given: {package}")


def _check_target(package: Path, documents: Sequence[Mapping[str, Any]], target: Compiles) -> None:
    """Refuse a pipeline that was compiled for a target with another kind of platform document."""
    if (len(documents) > 1) != (target.pipeline_target().platform is not None):
        raise ConfigError(
            f"package: must be compiled for {target.name}; compile.py calls such files NAME-{target.name}.yaml. "
            f"Given: {package}"
        )


def check_arguments(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Refuse a compiled pipeline that has no parameter for an argument.

    Raises:
        ConfigError: it is another pipeline, or one that an earlier version compiled.
    """
    known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    if unknown := sorted(arguments.keys() - known.keys()):
        raise ConfigError(f"package: the pipeline takes no {', '.join(unknown)}. Given: {format_value(sorted(known))}")


def pod_settings_in(spec: Mapping[str, Any]) -> PodSettings | None:
    """Return the settings of the training's pods that a compiled pipeline holds; None if it holds none."""
    for component in (spec["root"], *spec["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            value = task.get("inputs", {}).get("parameters", {}).get("pod", {}).get("runtimeValue", {}).get("constant")
            if value is not None:
                return pod_settings(json.loads(value))
    return None


def step_names(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of all steps of a compiled pipeline, those inside loops among them, but not the loops."""
    components = spec["components"]
    return frozenset(
        name
        for component in (spec["root"], *components.values())
        for name, task in component.get("dag", {}).get("tasks", {}).items()
        if "executorLabel" in components[task["componentRef"]["name"]]
    )
