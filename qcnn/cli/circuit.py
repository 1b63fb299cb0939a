"""qcnn circuit: drawing, analysis and export of a circuit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from qcnn.circuits.formats.embedded import embedded_inputs, is_embedded, is_file, model_display_name
from qcnn.circuits.formats.loading import embed_file, with_observables
from qcnn.cli.estimates import cones_line, estimate_as_json, simulators_table
from qcnn.cli.options.experiment import complete_field
from qcnn.cli.options.settings import format_option
from qcnn.errors import ConfigError
from qcnn.experiment.config import EXPERIMENT_FIELDS, ExperimentConfig
from qcnn.experiment.fields import MEMORY
from qcnn.experiment.parsing import from_mapping
from qcnn.process.library_loading import importing
from qcnn.results.local_run import model_in, of_run
from qcnn.results.model_folder import FILE
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from qcnn.circuits.ansatz import Ansatz
    from qcnn.planning.plan import CircuitSummary
    from qcnn.simulators.structure.network import CircuitIR

_ENCODINGS = get_args(EXPERIMENT_FIELDS["encoding"].annotation)


@dataclasses.dataclass(frozen=True)
class _CircuitInput:
    """Circuit to analyze, with the trained parameters `values`, float64 (parameters,), or None."""

    config: ExperimentConfig
    network: CircuitIR
    values: npt.NDArray[np.float64] | None


@click.command()
@click.argument("model", shell_complete=complete_field("model", EXPERIMENT_FIELDS["model"]))
@click.option("--qubits", type=int, metavar="N", help="Number of qubits on the ring.  [default: that of a file, or 8]")
@click.option(
    "--encoding",
    type=click.Choice(_ENCODINGS),
    help="State preparation, which affects the light cones.  [default: excitation]",
)
@click.option("--inputs", metavar="NAMES", help="Parameters of a circuit file that are features, such as x0,x1.")
@click.option("--observables", metavar="LIST", help="Readouts of a circuit file, such as 'Z0*Z1, 0.5*X2 - Y3'.")
@format_option
@click.option("--image", type=click.Path(path_type=Path), metavar="FILE", help="Save the drawing as .png or .svg.")
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Export the circuit as .qasm (OpenQASM), .qpy (Qiskit) or .json (Cirq).",
)
@click.option(
    "--openqasm", type=click.Choice(["2", "3"]), default="3", show_default=True, help="OpenQASM version of --export."
)
@click.option(
    "--sample",
    metavar="NUMBERS",
    help="Include the state preparation of a sample in the export: QUBIT,ANGLE, or the angles of an encoding.",
)
def circuit(
    model: str,
    qubits: int | None,
    encoding: str | None,
    inputs: str | None,
    observables: str | None,
    output_format: str,
    image: Path | None,
    target: Path | None,
    openqasm: str,
    sample: str | None,
) -> None:
    """Draw MODEL, report its gates, depth, light cones and selected simulator, and optionally export it.

    MODEL is hybrid, deep, module:function, an OpenQASM (.qasm) or Cirq (.json) file, or the folder or URI of a trained
    model or its run. The export of a trained model contains the values of its parameters.
    """
    if sample is not None and target is None:
        raise ConfigError(f"sample: must be given with --export. Given: {sample}")
    if target:
        _check_target(model, target)
    with importing("cirq"):
        from qcnn.circuits import drawing
        from qcnn.planning.plan import summarize_circuit
    subject = _circuit_input(model, qubits, encoding, observables, inputs)

    diagram = drawing.draw(subject.network.ansatz)
    summary = summarize_circuit(subject.network, subject.config.limits)
    if image:
        drawing.check_extension(image)
    if target:
        _export(subject, target, int(openqasm), sample)
    if image:
        drawing.save(diagram, image)
    if output_format == "json":
        click.echo(json.dumps(_as_json(subject, summary), indent=2))
        return
    fitting, hints = _fit(diagram.text, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
    click.echo(f"{model_display_name(subject.config.model)}: {diagram.title}\n\n{fitting}\n")
    if not diagram.is_complete:
        hints.append("not all gates are drawn; --export FILE writes them all")
    for line in hints:
        click.echo(f"{line}\n")
    for line in _lines(subject, summary):
        click.echo(line)
    for path in filter(None, (image, target)):
        click.echo(f"saved {path}")


def _fit(text: str, width: int | None) -> tuple[str, list[str]]:
    """Return a drawing whose lines fit into a terminal, and how to get what was cut off.

    Args:
        text: Drawing.
        width: Characters of a line of the terminal, or None for any number.
    """
    lines = text.splitlines()
    if width is None or max(map(len, lines), default=0) <= width:
        return text, []
    cut = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
    return "\n".join(cut), [
        "lines end at the width of the terminal; pipe them to less -S, or draw them with --image FILE"
    ]


def _check_target(model: str, target: Path) -> None:
    """Raise ConfigError if the export would overwrite the input file."""
    folder = Path(model)
    for source in (folder, folder / FILE, of_run(folder).exported / FILE):
        # A bucket URI is not a local file.
        with contextlib.suppress(OSError):
            if target.samefile(source):
                raise ConfigError(f"export: must differ from the input file. Given: {target}")


def _circuit_input(
    model: str, qubits: int | None, encoding: str | None, observables: str | None, inputs: str | None
) -> _CircuitInput:
    if not (is_embedded(model) or is_file(model)) and (parse_bucket_uri(model) or Path(model).is_dir()):
        if any(each is not None for each in (qubits, encoding, observables, inputs)):
            raise ConfigError(
                "circuit: --qubits, --encoding, --inputs and --observables must not be given for a trained model. "
                f"Given: {model}"
            )
        from qcnn.results.weights import load_trained

        with local_copy(model) as folder:
            trained = load_trained(model_in(folder, model))
        return _CircuitInput(trained.config, trained.network, trained.values)
    from qcnn.circuits import circuits
    from qcnn.circuits.formats import cirq_json
    from qcnn.circuits.preparation import EXCITATION, preparation_of
    from qcnn.simulators.structure.gates import preparation_for, read_network

    if inputs and not is_file(model):
        raise ConfigError(f"inputs: must be omitted unless the model is a circuit file. Given: {inputs} with {model}")
    text = embed_file(model, inputs or "") if is_file(model) else model
    if observables is not None:
        if not is_embedded(text):
            raise ConfigError(
                f"observables: must be omitted unless the model is a circuit file. Given: {observables} with {model}"
            )
        text = with_observables(text, observables)
    # Read once, because reading a circuit of thousands of gates takes a tenth of a second.
    embedded = _read_embedded(text) if qubits is None else None
    if embedded:
        qubits = cirq_json.width(embedded)
    of_inputs = {"encoding": "circuit", "data": MEMORY} if embedded_inputs(text) else {}
    config = from_mapping({"model": text, **of_inputs, **({} if qubits is None else {"qubits": qubits})})
    ansatz = embedded or circuits.build(config.model, config.qubits)
    preparation = preparation_for(ansatz, preparation_of(encoding or EXCITATION.kind, config.qubits))
    return _CircuitInput(config, read_network(ansatz, circuits.ring(config.qubits), preparation), None)


def _read_embedded(model: str) -> Ansatz | None:
    """Return the circuit of an embedded circuit file, or None for another model."""
    from qcnn.circuits.formats import cirq_json
    from qcnn.circuits.formats.embedded import embedded_content

    try:
        content = embedded_content(model)
    except ValueError:
        return None
    return cirq_json.read(content, model_display_name(model))


def _export(subject: _CircuitInput, target: Path, version: int, sample: str | None) -> None:
    from qcnn.circuits.formats import export
    from qcnn.circuits.sample_circuits import with_sample

    ansatz, ring = subject.network.ansatz, subject.network.ring
    if subject.values is not None:
        ansatz = export.bind_parameters(ansatz, subject.values)
    if sample is not None:
        ansatz = with_sample(ansatz, subject.network.preparation, ring, _numbers(sample))
    export.write(ansatz, ring, target, version, _notes(subject, sample))


def _notes(subject: _CircuitInput, sample: str | None) -> list[str]:
    readouts = subject.network.readouts
    trained = "trained parameters as numbers" if subject.values is not None else "parameters as inputs, in rad"
    state = f"after the data state of sample {sample}" if sample else "to be applied to a data state"
    return [
        f"{model_display_name(subject.config.model)} of {subject.network.qubits} qubits, {state}; "
        f"{trained if subject.network.parameters else 'no parameters'}",
        _readout_note(readouts),
    ]


def _readout_note(readouts: Sequence[int | str]) -> str:
    if all(isinstance(readout, int) for readout in readouts):
        return f"readouts: Z on qubits {', '.join(map(str, readouts))}, measured at the end in this order"
    return f"readouts, expectation values at the end: {', '.join(_texts(readouts))}"


def _texts(readouts: Sequence[int | str]) -> list[str]:
    from qcnn.simulators.structure.pauli_strings import texts_of

    return texts_of(readouts)


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(f"sample: must be finite numbers separated by commas. Given: {text}")
    return numbers


def _lines(subject: _CircuitInput, summary: CircuitSummary) -> list[str]:
    total = sum(summary.gates.values())
    gates = ", ".join(f"{count} {kind}" for kind, count in summary.gates.items())
    lines = [
        f"{total} gates: {gates or 'none'}",
        f"depth {summary.depth}; fused depth {summary.fused_depth}, {summary.blocks} blocks",
        f"parameters: {_abbreviate(summary.parameters)}",
        f"readouts: {_readouts_line(summary.readouts)}",
    ]
    if summary.cones is None:
        lines.append("light cones: too wide for any memory")
    else:
        lines.append(cones_line(len(summary.readouts), summary.strings, summary.cones))
    lines += ["", simulators_table(summary.estimates, summary.chosen), ""]
    if summary.chosen:
        lines.append(f"simulator {summary.chosen.simulator}, the cheapest that is exact and fits in memory")
    else:
        lines.append(summary.unsupported_reason)
    return lines


def _readouts_line(readouts: Sequence[int | str]) -> str:
    if all(isinstance(readout, int) for readout in readouts):
        return f"qubits {_abbreviate([str(readout) for readout in readouts])}"
    return _abbreviate(_texts(readouts))


def _abbreviate(names: Sequence[str]) -> str:
    """Return names separated by commas, or the first five and the last of more than 12 names."""
    if len(names) > 12:
        return f"{', '.join(names[:5])}, ... {names[-1]} ({len(names)})"
    return ", ".join(names) or "none"


def _as_json(subject: _CircuitInput, summary: CircuitSummary) -> dict[str, Any]:
    values = None if subject.values is None else dict(zip(summary.parameters, subject.values.tolist(), strict=True))
    simulators = {estimate.simulator: estimate_as_json(estimate) for estimate in summary.estimates}
    return {
        "model": model_display_name(subject.config.model),
        "qubits": summary.qubits,
        "parameters": list(summary.parameters),
        "values": values,
        "readouts": list(summary.readouts),
        "gates": summary.gates,
        "depth": summary.depth,
        "blocks": summary.blocks,
        "fused_depth": summary.fused_depth,
        "cones": None if summary.cones is None else [list(cone) for cone in summary.cones],
        "simulators": simulators,
        "simulator": summary.chosen.simulator if summary.chosen else None,
        "refusal": summary.unsupported_reason,
    }
