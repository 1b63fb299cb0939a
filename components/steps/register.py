"""Step that registers a model, and promotes it if it is better than the present champion."""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Mapping
from pathlib import Path

from qcnn.artifact_io import text_of
from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError, ConfigError, WriteError
from qcnn.registry.address import check_without_secrets, open_registry
from qcnn.registry.registration import register_model
from qcnn.serving.versions import check_name

logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True)
class RegistrationTarget:
    """Name of the registered model, and the path or URI of the registry. None is the default registry.

    Raises:
        ConfigError: If the name is invalid, or the URI has credentials.
    """

    name: str
    registry: str | None = None

    def __post_init__(self) -> None:
        """Check the name and the registry."""
        check_name(self.name, "register")
        check_without_secrets(self.registry or "")


def load_metrics(path: str) -> dict[str, float]:
    """Return the metrics that the evaluate step wrote.

    Raises:
        ArtifactError: If the file is missing or damaged.
    """
    with readable("metrics", Path(path)):
        return {name: float(value) for name, value in json.loads(text_of(Path(path))).items()}


def register(
    model: str, dataset: str, metrics: Mapping[str, float], source: str, target: RegistrationTarget
) -> dict[str, float]:
    """Register a model and promote it if it is better, and return the metrics of the step.

    These are `version` and `promoted`, 0 or 1, and after a comparison the `probability` that the model is better. A
    model that is not better, or cannot be compared, is registered nevertheless.

    Args:
        model: Model folder.
        dataset: Folder of its dataset.
        metrics: Metrics of its evaluation.
        source: Path or URI of the model, for the record.
        target: Where to register it.

    Raises:
        ArtifactError: If a file is damaged.
        ConfigError: If the registry denies access.
        WriteError: If another process has moved the label in the meantime.
    """
    # This import loads the table libraries, which most runs do not need.
    from qcnn.registry.gate import promote

    name = target.name
    with contextlib.closing(open_registry(target.registry)) as registry:
        registered = register_model(registry, name, Path(model), Path(dataset), metrics, source)
        logger.info("version %d of %s in %s", registered.version, name, registry.address)
        found: dict[str, float] = {"version": registered.version, "promoted": 0}
        try:
            result = promote(registry, name, version=registered.version)
        except WriteError:
            raise
        except (ArtifactError, ConfigError) as error:
            logger.warning("%s is not promoted: %s", name, error)
            return found
    logger.info("%s", result.text)
    probability = {"probability": result.comparison.probability} if result.comparison else {}
    return {**found, "promoted": int(result.is_promoted), **probability}
