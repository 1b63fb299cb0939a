"""What the artifacts of a run tell of it: its metrics, and the words of the experiment that was run."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.tensorboard.step import BACKENDS_OWN
from trainer.config import from_mapping, from_saved
from trainer.errors import ConfigError

_METRICS, _MODEL = "system.Metrics", "system.Model"
_FIRST = ("mse", "accuracy")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One artifact; `metadata` is what its step has written beside it."""

    type: str
    uri: str
    metadata: Mapping[str, Any]


def metrics_of(artifacts: Sequence[Artifact]) -> dict[str, float]:
    """Return the metrics of a run, first those that are looked at first: stores keep them in no order."""
    return {
        name: float(value)
        for artifact in artifacts
        if artifact.type == _METRICS
        for name, value in sorted(artifact.metadata.items(), key=_place)
        if name not in BACKENDS_OWN and isinstance(value, int | float)
    }


def words_of(artifacts: Sequence[Artifact], submitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of the experiment that was run, which may differ from those that were submitted.

    A schedule gives each run a seed of its own, a study each trial its words; the artifacts record them.
    """
    tagged = [
        (artifact.type, artifact.metadata["experiment"]) for artifact in artifacts if "experiment" in artifact.metadata
    ]
    of_models = {experiment for kind, experiment in tagged if kind == _MODEL}
    known = of_models or {experiment for _, experiment in tagged}
    recorded = json.loads(known.pop()) if len(known) == 1 else None
    words = recorded or dict(submitted)
    try:
        words = (from_saved if recorded else from_mapping)(words).model_dump()
    except ConfigError:
        # The run's first step refuses it too; what was submitted is still worth a row.
        words = dict(words)
    options = words.pop("options", {})
    return {**words, **(options if isinstance(options, dict) else {})}


def _place(item: tuple[str, Any]) -> tuple[int, str]:
    """Return what metrics are sorted by."""
    name, _ = item
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
