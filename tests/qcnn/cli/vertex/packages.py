"""Compiled pipelines with shell programs as steps, which run without delay."""

from pathlib import Path
from typing import Any

import yaml
from kfp import compiler, dsl

from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.vertex import VERTEX

FOREVER = "trap 'exit 143' TERM; echo started; while true; do sleep 0.1; done"


@dsl.container_component
def shell(program: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="image", command=["sh", "-ec", program])


def two_steps(folder: Path, first: str, second: str = "echo second") -> str:
    """Compile two steps with shell programs and the parameters of the main pipeline, and return the file."""

    @dsl.pipeline(name="qcnn")
    def steps() -> None:
        begun = shell(program=first)
        shell(program=second).after(begun)

    compiler.Compiler().compile(steps, str(folder / "steps.yaml"))
    spec = _main(folder)
    small = yaml.safe_load((folder / "steps.yaml").read_text())
    small["root"]["inputDefinitions"] = spec["root"]["inputDefinitions"]
    return _save(folder, small)


def endless_main_pipeline(folder: Path) -> str:
    """Compile the main pipeline with steps that run until they are terminated, and return the file."""
    spec = _main(folder)
    for executor in spec["deploymentSpec"]["executors"].values():
        executor["container"] |= {"command": ["sh", "-ec", FOREVER], "args": []}
    return _save(folder, spec)


def _main(folder: Path) -> dict[str, Any]:
    compile_qcnn(VERTEX, folder / "main.yaml", f"registry/qcnn@sha256:{64 * '1'}")
    found: dict[str, Any] = yaml.safe_load((folder / "main.yaml").read_text())
    return found


def _save(folder: Path, spec: dict[str, Any]) -> str:
    path = folder / "package.yaml"
    path.write_text(yaml.safe_dump(spec))
    return str(path)
