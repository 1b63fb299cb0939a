"""qcnn models: registered models and their versions."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from qcnn.cli.options.registry import registry_option
from qcnn.cli.options.settings import format_option
from qcnn.cli.output import format_table, show

if TYPE_CHECKING:
    from qcnn.registry.interface import ModelVersion, Registry

# Metrics in the table of versions.
_METRICS = ("mse", "loss", "accuracy", "r2")
# Characters of a digest in a table.
_DIGEST = 12


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@registry_option
@format_option
def models(name: str | None, registry: str | None, output_format: str) -> None:
    """List the registered models, or the versions of NAME with their metrics, data and promotions."""
    # These imports load NumPy.
    from qcnn.registry.address import open_registry
    from qcnn.registry.references import check_registered

    with contextlib.closing(open_registry(registry)) as opened:
        if name is None:
            _show_models(opened, output_format)
            return
        check_registered(opened, name)
        _show_model(opened, name, output_format)


def _show_models(registry: Registry, output_format: str) -> None:
    described: list[dict[str, Any]] = [
        {
            "name": name,
            "versions": [each.number for each in registry.versions(name) if not each.problem],
            "labels": registry.labels(name).versions,
        }
        for name in registry.names()
    ]
    rows = [
        (
            each["name"],
            ", ".join(map(str, each["versions"])),
            ", ".join(f"{label} {number}" for label, number in sorted(each["labels"].items())),
        )
        for each in described
    ]
    text = (
        format_table(("name", "versions", "labels"), rows) if rows else f"no model is registered in {registry.address}"
    )
    show(output_format, described, text)


def _labels_of(version: int, labels: Mapping[str, int]) -> list[str]:
    return sorted(label for label, number in labels.items() if number == version)


def _show_model(registry: Registry, name: str, output_format: str) -> None:
    versions, labels, promotions = registry.versions(name), registry.labels(name).versions, registry.promotions(name)
    described = {
        "versions": [_described(each, labels) for each in versions],
        "promotions": [
            {**dataclasses.asdict(each), "time": each.time.isoformat(timespec="seconds")} for each in promotions
        ],
    }
    known = [metric for metric in _METRICS if any(each.record and metric in each.record.metrics for each in versions)]
    if "mse" in known:
        # It is the loss.
        known = [metric for metric in known if metric != "loss"]
    header = ("version", "labels", "registered", *known, "data", "source", "state")
    text = format_table(header, [_row(each, labels, known) for each in versions])
    if promotions:
        moves = [
            (
                each.label,
                each.previous,
                each.version,
                f"{each.time:%Y-%m-%d %H:%M}",
                "yes" if each.forced else "",
                each.comparison.text if each.comparison else each.note,
            )
            for each in promotions
        ]
        text += "\n\n" + format_table(("promoted", "from", "to", "time", "forced", "comparison"), moves)
    show(output_format, described, text)


def _row(version: ModelVersion, labels: Mapping[str, int], metrics: list[str]) -> tuple[Any, ...]:
    record, state = version.record, version.problem or "complete"
    own = ", ".join(_labels_of(version.number, labels))
    if record is None:
        return (version.number, own, "", *([""] * len(metrics)), "", "", state)
    values = (f"{record.metrics[metric]:.6g}" if metric in record.metrics else "" for metric in metrics)
    time, digest = f"{record.registered:%Y-%m-%d %H:%M}", record.dataset_digest[:_DIGEST]
    return (version.number, own, time, *values, digest, record.source, state)


def _described(version: ModelVersion, labels: Mapping[str, int]) -> dict[str, Any]:
    record = {} if version.record is None else dataclasses.asdict(version.record)
    if version.record:
        record["registered"] = version.record.registered.isoformat(timespec="seconds")
    state = version.problem or "complete"
    return {"version": version.number, "labels": _labels_of(version.number, labels), "state": state, **record}
