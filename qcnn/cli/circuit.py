"""qcnn circuit: what a circuit consists of, drawn and counted, and written for other libraries."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from qcnn.circuits.formats.embedded import is_embedded, is_file, model_display_name
from qcnn.circuits.formats.loading import embedded
from qcnn.cli.options.experiment import check_model, complete_word
from qcnn.cli.options.settings import form_option
from qcnn.cli.plan import cones_line, simulators_table
from qcnn.errors import ConfigError
from qcnn.experiment import EXPERIMENT_FIELDS, ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.results.local_run import model_in, of_run
from qcnn.results.model_folder import FILE
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from qcnn.circuits.preparation import Kind
    from qcnn.planning.plan import CircuitSummary
    from qcnn.simulators.registry import Estimate
    from qcnn.simulators.structure.gates import CircuitIR

_ENCODINGS = get_args(EXPERIMENT_FIELDS["encoding"].annotation)
# The least ring there is.
_LEAST_QUBITS = 4


@dataclasses.dataclass(frozen=True)
class _CircuitInput:
    """A circuit that is looked at; `values`, (parameters,), are what a trained one has learnt, else None."""

    config: ExperimentConfig
    network: CircuitIR
    values: npt.NDArray[np.float64] | None


@click.command()
@click.argument("model", shell_complete=complete_word("model", EXPERIMENT_FIELDS["model"]))
@click.option("--qubits", type=int, metavar="N", help="Qubits on the ring.  [default: a file's own, else 8]")
@click.option(
    "--encoding",
    type=click.Choice(_ENCODINGS),
    help="What prepares the data states, which light cones depend on.  [default: excitation]",
)
@form_option
@click.option("--image", type=click.Path(path_type=Path), metavar="FILE", help="Draw it into this file, .png or .svg.")
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it into this file: .qasm (OpenQASM), .qpy (Qiskit) or .json (cirq).",
)
@click.option(
    "--openqasm", type=click.Choice(["2", "3"]), default="3", show_default=True, help="Version of what is exported."
)
@click.option(
    "--sample",
    metavar="NUMBERS",
    help="Export what prepares this sample too: QUBIT,ANGLE, or the angles of an encoding.  [default: none]",
)
def circuit(
    model: str,
    qubits: int | None,
    encoding: str | None,
    form: str,
    image: Path | None,
    target: Path | None,
    openqasm: str,
    sample: str | None,
) -> None:
    """Draw MODEL and count its gates, depth and light cones; tell which simulator takes it; write it.

    MODEL is hybrid, deep, module:function, a file of OpenQASM (.qasm) or of cirq (.json), or the folder or address of a
    trained model or of its run, whose parameters are numbers in what is exported.
    """
    if sample is not None and target is None:
        raise ConfigError(f"circuit: takes --sample with --export alone. Given: --sample {sample}")
    if target:
        _check_target(model, target)
    subject = _subject(model, qubits, encoding)
    from qcnn.circuits import drawing
    from qcnn.planning.plan import summarize_circuit

    drawn = drawing.draw(subject.network.ansatz)
    found = summarize_circuit(subject.network, subject.config.limits)
    if image:
        drawing.check_ending(image)
    if target:
        _export(subject, target, int(openqasm), sample)
    if image:
        drawing.save(drawn, image)
    if form == "json":
        click.echo(json.dumps(_as_json(subject, found), indent=2))
        return
    click.echo(f"{model_display_name(subject.config.model)}: {drawn.title}\n\n{drawn.text}\n")
    for line in _lines(subject, found):
        click.echo(line)
    for path in filter(None, (image, target)):
        click.echo(f"written: {path}")


def _check_target(model: str, target: Path) -> None:
    """Refuse to write over the file of a circuit or of a trained model that is read."""
    folder = Path(model)
    for read in (folder, folder / FILE, of_run(folder).exported / FILE):
        # An address in a bucket is the name of no file here.
        with contextlib.suppress(OSError):
            if target.samefile(read):
                raise ConfigError(f"export: must be another file than the one that is read. Given: {target}")


def _subject(model: str, qubits: int | None, encoding: str | None) -> _CircuitInput:
    if not (is_embedded(model) or is_file(model)) and (parse_bucket_uri(model) or Path(model).is_dir()):
        if qubits is not None or encoding is not None:
            raise ConfigError(f"circuit: a trained model has its own --qubits and --encoding. Given: {model}")
        from qcnn.results.weights import load_trained

        with local_copy(model) as folder:
            trained = load_trained(model_in(folder, model))
        return _CircuitInput(trained.config, trained.network, trained.values)
    from qcnn.circuits.preparation import EXCITATION, Preparation
    from qcnn.simulators.structure.gates import read_model

    text = embedded(model) if is_file(model) else model
    words = {"model": text, **({"qubits": qubits} if qubits is not None else _own_qubits(text))}
    config = from_mapping(words)
    check_model(config)
    kind = cast("Kind", encoding or EXCITATION.kind)
    preparation = EXCITATION if kind == EXCITATION.kind else Preparation(kind, config.qubits)
    return _CircuitInput(config, read_model(config.model, config.qubits, preparation)[1], None)


def _own_qubits(model: str) -> dict[str, int]:
    """Return the qubits of a circuit that a text holds, none for another model."""
    from qcnn.circuits.formats import cirq_json
    from qcnn.circuits.formats.embedded import embedded_content

    try:
        content = embedded_content(model)
    except ValueError:
        return {}
    return {"qubits": max(_LEAST_QUBITS, cirq_json.width(cirq_json.read(content, model_display_name(model))))}


def _export(subject: _CircuitInput, target: Path, version: int, sample: str | None) -> None:
    from qcnn.circuits.ansatz import Ansatz
    from qcnn.circuits.formats import export
    from qcnn.circuits.sample_circuits import data_state

    ansatz, ring = subject.network.ansatz, subject.network.ring
    if subject.values is not None:
        ansatz = export.bound(ansatz, subject.values)
    if sample is not None:
        prepared = data_state(subject.network.preparation, ring, _numbers(sample))
        ansatz = Ansatz(prepared + ansatz.circuit, ansatz.symbols, ansatz.readouts)
    export.write(ansatz, ring, target, version, _notes(subject, sample))


def _notes(subject: _CircuitInput, sample: str | None) -> list[str]:
    places = ", ".join(map(str, subject.network.readouts))
    what = "its trained parameters are numbers" if subject.values is not None else "its parameters are inputs, in rad"
    state = f"after the data state of sample {sample}" if sample else "to be applied after a data state"
    return [
        f"{model_display_name(subject.config.model)} of {subject.network.qubits} qubits, {state}; "
        f"{what if subject.network.parameters else 'it has no parameters'}",
        f"readouts are Z on qubits {places}, here measured at the end in this order",
    ]


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(f"sample: must be finite numbers with commas between them. Given: {text}")
    return numbers


def _lines(subject: _CircuitInput, found: CircuitSummary) -> list[str]:
    total = sum(found.gates.values())
    gates = ", ".join(f"{count} {kind}" for kind, count in found.gates.items())
    lines = [
        f"{total} gates: {gates or 'none'}",
        f"depth {found.depth} as written; {found.fused_depth} as {found.blocks} blocks that simulators fuse",
        f"parameters: {_listed(found.parameters)}",
        f"readouts: qubits {_listed([str(readout) for readout in found.readouts])}",
    ]
    if found.cones is None:
        lines.append("light cones: wider than any memory holds")
    else:
        lines.append(cones_line(len(found.readouts), found.cones))
    lines += ["", simulators_table(found.estimates, found.chosen), ""]
    if found.chosen:
        lines.append(f"simulator {found.chosen.simulator}, the cheapest that is exact and fits in memory")
    else:
        lines.append(found.refusal)
    return lines


def _listed(names: Sequence[str]) -> str:
    """Return names with commas between them, of many the first and last."""
    if len(names) > 12:
        return f"{', '.join(names[:5])}, ... {names[-1]} ({len(names)})"
    return ", ".join(names) or "none"


def _estimate(estimate: Estimate) -> dict[str, Any]:
    """Return what a step costs a simulator; null for what is more than any machine has."""
    cost = estimate.cost
    numbers = {"flops": cost.operations, "traffic_bytes": cost.traffic, "memory_bytes": cost.memory}
    known = numbers if math.isfinite(cost.memory) else dict.fromkeys(numbers)
    return {**known, "fits": estimate.fits}


def _as_json(subject: _CircuitInput, found: CircuitSummary) -> dict[str, Any]:
    values = None if subject.values is None else dict(zip(found.parameters, subject.values.tolist(), strict=True))
    simulators = {estimate.simulator: _estimate(estimate) for estimate in found.estimates}
    return {
        "model": model_display_name(subject.config.model),
        "qubits": found.qubits,
        "parameters": list(found.parameters),
        "values": values,
        "readouts": list(found.readouts),
        "gates": found.gates,
        "depth": found.depth,
        "blocks": found.blocks,
        "fused_depth": found.fused_depth,
        "cones": None if found.cones is None else [list(cone) for cone in found.cones],
        "simulators": simulators,
        "simulator": found.chosen.simulator if found.chosen else None,
        "refusal": found.refusal,
    }
