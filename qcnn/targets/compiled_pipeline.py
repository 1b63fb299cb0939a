"""Compiled pipelines that are submitted: compiled now, or a file that was compiled before."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.components.training_job import check_data
from qcnn.errors import ConfigError, one_line
from qcnn.experiment import EXCITATIONS, GENERATED
from qcnn.jobs.pod_settings import Pod, pod_settings
from qcnn.targets.library_output import quiet
from qcnn.targets.settings import setting

# Writes a pipeline to a path, every step in an image, with settings of the training's pods.
Compile = Callable[[Path, str | None, Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
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


def main_pipeline(target: str, *, data: str, seeded_by_run: bool = False, board: str = "") -> Compile:
    """Return what compiles the main pipeline for a target; `board` is the address of a TensorBoard to be linked.

    Where the experiment's `data` are a file, the pipeline imports it.

    Raises:
        ConfigError: the steps could not read that file.
    """
    own_data = check_data(data)

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_qcnn
        from qcnn.pipelines.parts import Viewer
        from qcnn.pipelines.targets import TARGETS

        compile_qcnn(
            *(TARGETS[target], path, image, settings),
            viewer=Viewer(board),
            seeded_by_run=seeded_by_run,
            own_data=own_data,
        )

    return compile_now


def study_pipeline(target: str, parallelism: int, data: str) -> Compile:
    """Return what compiles the study for a target; all else as `main_pipeline`.

    Raises:
        ConfigError: as `main_pipeline`.
    """
    file = data if check_data(data) else ""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_study
        from qcnn.pipelines.targets import TARGETS

        compile_study(TARGETS[target], path, image, settings, parallelism=parallelism, data=file)

    return compile_now


def tuning_pipeline(target: str, parallelism: int, stopping: str) -> Compile:
    """Return what compiles the study of a target's own tuner."""

    def compile_now(path: Path, image: str | None, settings: Mapping[str, Any]) -> None:
        from qcnn.pipelines.compiler import compile_tuning
        from qcnn.pipelines.targets import TARGETS

        compile_tuning(TARGETS[target], path, image, settings, parallelism=parallelism, stopping=stopping)

    return compile_now


@contextlib.contextmanager
def compiled(source: Source, compile_now: Compile) -> Iterator[Path]:
    """Yield a compiled pipeline: the file that is given, or one made now.

    Raises:
        ConfigError: a setting of the pods is wrong.
    """
    if source.package:
        yield source.package
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        with quiet():
            compile_now(path, source.image, source.pod)
        yield path


@contextlib.contextmanager
def scheduled(source: Source, target: str, data: str) -> Iterator[Path]:
    """Yield a compiled main pipeline, for such data, each of whose runs has a seed of its own.

    Raises:
        ConfigError: the given file does not hold the main pipeline, or a setting of the pods is wrong.
    """
    with compiled(source, main_pipeline(target, data=data, seeded_by_run=True)) as package:
        if not source.package:
            yield package
            return
        with quiet():
            import yaml

            from qcnn.pipelines.parts import seeded_by_run

        pipeline, *platform = read_package(package, target)
        try:
            documents = [seeded_by_run(pipeline), *platform]
        except LookupError:
            raise ConfigError(
                f"package: must be the main pipeline, as compile.py writes it. Given: {package}"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "scheduled.yaml")
            path.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
            yield path


def read_package(package: Path, target: str) -> list[dict[str, Any]]:
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
        reason = one_line(error)
    raise ConfigError(f"package: must be a pipeline that compile.py wrote ({reason}). Given: {package}")


def _check_target(package: Path, documents: Sequence[Mapping[str, Any]], target: str) -> None:
    """Refuse a pipeline that was compiled for a target with another kind of platform document."""
    from qcnn.pipelines.targets import TARGETS

    if (len(documents) > 1) != (TARGETS[target].platform is not None):
        raise ConfigError(
            f"package: must be compiled for {target}; compile.py calls such files NAME-{target}.yaml. Given: {package}"
        )


def check_imports(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Refuse a main pipeline that imports a file where its arguments name none, and the other way round.

    Raises:
        ConfigError: it was compiled for other data.
    """
    data = arguments.get("data", EXCITATIONS)
    imports = any("importer" in executor for executor in spec["deploymentSpec"]["executors"].values())
    if "data" in arguments and imports != (data not in GENERATED):
        name = "qcnn" if imports else "qcnn-own-data"
        raise ConfigError(f"package: for such data must be the one that compile.py calls {name}. Given: data {data}")


def pod_of(spec: Mapping[str, Any]) -> Pod | None:
    """Return the settings of the training's pods that a compiled pipeline holds; None if it holds none."""
    for component in (spec["root"], *spec["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            value = task.get("inputs", {}).get("parameters", {}).get("pod", {}).get("runtimeValue", {}).get("constant")
            if value is not None:
                return pod_settings(json.loads(value))
    return None


def steps_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of all steps of a compiled pipeline, those inside loops among them, but not the loops."""
    components = spec["components"]
    return frozenset(
        name
        for component in (spec["root"], *components.values())
        for name, task in component.get("dag", {}).get("tasks", {}).items()
        if "executorLabel" in components[task["componentRef"]["name"]]
    )
