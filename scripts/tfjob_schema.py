"""Write tests/qcnn/jobs/tfjob_schema.json from the training operator's definition of a TFJob.

The definition is manifests/base/crds/kubeflow.org_tfjobs.yaml of github.com/kubeflow/training-operator (Apache-2.0).
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parents[1] / "tests" / "qcnn" / "jobs" / "tfjob_schema.json"


def schema_of(definition: dict[str, Any]) -> Any:
    """Return the schema of the only version of a CustomResourceDefinition, without descriptions."""
    (version,) = definition["spec"]["versions"]
    return _without_descriptions(version["schema"]["openAPIV3Schema"])


def _without_descriptions(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # A property of this name has a schema, not a text.
    kept = {key: value for key, value in schema.items() if key != "description" or not isinstance(value, str)}
    return {key: _without_descriptions(value) for key, value in kept.items()}


def main(path: str, release: str) -> None:
    """Write the schema of the CustomResourceDefinition in a file of a release, such as v1.9.4."""
    written = {
        "source": f"github.com/kubeflow/training-operator {release}, manifests/base/crds/kubeflow.org_tfjobs.yaml",
        "license": "Apache-2.0",
        "changes": "the descriptions are left out",
        "schema": schema_of(yaml.safe_load(Path(path).read_text())),
    }
    TARGET.write_text(json.dumps(written, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
