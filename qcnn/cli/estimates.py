"""Lines, tables and JSON values about circuits and simulators that several commands print.

Does not import the targets, because qcnn circuit has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.cli.output import format_table

if TYPE_CHECKING:
    from qcnn.simulators.registry import Estimate

SECONDS = "seconds per epoch"
_SIMULATOR_HEADER = ("simulator", "flops per step", "traffic per step", "memory of states", SECONDS, "")


def cones_line(readouts: int, strings: int, cones: Sequence[Sequence[int]]) -> str:
    """Return the line about the light cones of the distinct Pauli strings of the readouts.

    Args:
        readouts: Number of readouts.
        strings: Number of their strings.
        cones: Qubits of the independent parts of each distinct string's light cone.
    """
    count = f"{readouts} readouts" if readouts == strings else f"{readouts} readouts from {strings} Pauli strings"
    widths = ", ".join(" + ".join(f"{qubits} qubits" for qubits in cone) for cone in dict.fromkeys(cones))
    return (
        f"{count}, {len(cones)} of them distinct; independent parts of their light cones, including "
        f"traced-out qubits: {widths}"
    )


def simulators_table(
    estimates: Sequence[Estimate], chosen: Estimate | None, seconds: Mapping[str, float] | None = None
) -> str:
    """Return the table of the simulators' costs.

    Args:
        estimates: Cost of a training step with each simulator.
        chosen: Estimate of the selected simulator, or None.
        seconds: Seconds per epoch by simulator, or None if they are unknown.
    """
    from qcnn.simulators.costs.cost import format_bytes

    rows = []
    for estimate in estimates:
        cost = estimate.cost
        numbers, reason = [""] * (len(_SIMULATOR_HEADER) - 2), "unsupported"
        if math.isfinite(cost.memory):
            time = f"{seconds[estimate.simulator]:.3g}" if seconds else ""
            numbers = [f"{cost.operations:.2g}", format_bytes(cost.traffic), format_bytes(cost.memory), time]
            reason = "exceeds simulator_memory_gib"
        note = "" if estimate.fits else reason
        row = [estimate.simulator, *numbers, "selected" if estimate is chosen else note]
        rows.append([cell for cell, name in zip(row, _SIMULATOR_HEADER, strict=True) if seconds or name != SECONDS])
    headers = [name for name in _SIMULATOR_HEADER if seconds or name != SECONDS]
    return format_table(headers, rows)


def estimate_as_json(estimate: Estimate, **others: float) -> dict[str, Any]:
    """Return the costs of a training step, or null values if they exceed the memory of any machine.

    Args:
        estimate: Estimate of a simulator.
        others: Further numbers.
    """
    cost = estimate.cost
    numbers = {"flops": cost.operations, "traffic_bytes": cost.traffic, "memory_bytes": cost.memory, **others}
    known = numbers if math.isfinite(cost.memory) else dict.fromkeys(numbers)
    return {**known, "fits": estimate.fits}
