"""What compiled pipelines are compiled for."""

from pathlib import Path

from kfp import compiler
from kfp.dsl.base_component import BaseComponent

from pipelines.qcnn import qcnn

TARGETS: dict[str, BaseComponent] = {"kubeflow": qcnn}


def compile_target(target: str, path: Path, image: str | None = None) -> None:
    """Write the compiled pipeline of a target, every step in `image` where one is given."""
    pipeline = TARGETS[target]
    spec = type(pipeline.pipeline_spec)()
    spec.CopyFrom(pipeline.pipeline_spec)
    for executor in spec.deployment_spec["executors"].values():
        container = executor["container"]
        if image:
            container["image"] = image
        # Provenance in every artifact names the image.
        container["env"] = [{"name": "QCNN_IMAGE", "value": container["image"]}]
    compiler.pipeline_spec_builder.write_pipeline_spec_to_file(
        pipeline_spec=spec,
        pipeline_description=pipeline.description,
        platform_spec=pipeline.platform_spec,
        package_path=str(path),
    )
