"""Load circuit files and embed them in experiments, so that each file is read once."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from qcnn.circuits.formats.embedded import (
    JSON,
    MAX_QUBITS,
    MIN_QUBITS,
    MODELS,
    QASM,
    QPY,
    embed,
    embedded_content,
    embedded_inputs,
    is_embedded,
    is_file,
    model_display_name,
    parse_input_names,
)
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.input_files import read_bytes, read_input
from qcnn.process.library_loading import importing
from qcnn.storage.store import BucketUri, parse_bucket_uri
from qcnn.storage.sync import open_store

if TYPE_CHECKING:
    from qcnn.circuits.ansatz import Ansatz

# Maximum bytes of a file, far above the size of circuits that can be embedded.
_MAX_BYTES = {QASM: 2_000_000, JSON: 20_000_000, QPY: 20_000_000}


def with_embedded_circuit(fields: Mapping[str, Any], *, varied: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of an experiment with the circuit file embedded, and with the fields of the circuit in it.

    These are its observables, inputs and feature map.

    Args:
        fields: Fields, whose options may be in `options` or at the top level.
        varied: Names of fields with other values in the trials of a study. Fields of the circuit stay fields if they
            apply to several circuits, so that those of each trial are applied to its circuit.

    Raises:
        ConfigError: If the circuit file is invalid, see `embed_file`, or a field of the circuit is.
    """
    changed, model = dict(fields), fields.get("model", MODELS[0])
    if not isinstance(model, str):
        return changed
    kept = {"observables", "inputs", "feature_map"} if "model" in varied else set[str]()
    if not {"qubits", "feature_map"}.isdisjoint(varied):
        kept.add("feature_map")
    place = _CircuitFields(changed, kept)
    if is_file(model):
        model = changed["model"] = embed_file(model, place.take("inputs"))
    elif is_embedded(model) and (names := place.take("inputs")):
        model = changed["model"] = with_inputs(model, names)
    if is_embedded(model) and (text := place.take("observables")):
        model = changed["model"] = with_observables(model, text)
    if "feature_map" in kept:
        return changed
    if (is_embedded(model) or model in MODELS) and (text := place.take("feature_map")):
        changed["model"] = _with_feature_map(model, text, changed.get("qubits"))
    return changed


class _CircuitFields:
    """Fields of an experiment that change its circuit, in `options` or at the top level."""

    def __init__(self, fields: dict[str, Any], kept: Collection[str]) -> None:
        self._fields, self._kept = fields, kept

    def take(self, name: str) -> str:
        """Return the text of a field, which is then empty unless it is kept."""
        if name in self._kept:
            return circuit_field(self._fields, name)
        options = self._fields.get("options")
        found = ""
        if isinstance(self._fields.get(name), str):
            found, self._fields[name] = self._fields[name], ""
        if isinstance(options, Mapping) and isinstance(options.get(name), str):
            found = found or options[name]
            self._fields["options"] = {**options, name: ""}
        return found


def circuit_field(fields: Mapping[str, Any], name: str) -> str:
    """Return the text of a field that changes the circuit, in `options` or at the top level, or an empty string."""
    options = fields.get("options")
    every = (fields.get(name), options.get(name) if isinstance(options, Mapping) else None)
    return next((text for text in every if isinstance(text, str) and text), "")


def _changed(model: str, change: "Callable[[Ansatz], Ansatz]") -> str:
    """Return an embedded circuit after a change.

    Raises:
        ConfigError: If the circuit is invalid, or the change is.
    """
    from qcnn.circuits.formats import cirq_json

    name = model_display_name(model)
    try:
        content = embedded_content(model)
    except ValueError as error:
        raise ConfigError(f"model: must be an embedded circuit ({error}). Given: {name}") from None
    return embed(model.partition("#")[0], cirq_json.to_json(change(cirq_json.read(content, name))))


def with_observables(model: str, text: str) -> str:
    """Return an embedded circuit with other readouts.

    Args:
        model: Embedded circuit.
        text: Readouts, see `qcnn.circuits.observables.parse`.

    Raises:
        ConfigError: If the circuit or the text is invalid.
    """
    with importing("cirq"):
        from qcnn.circuits import observables

    return _changed(model, lambda ansatz: dataclasses.replace(ansatz, readouts=observables.parse(text)))


def with_inputs(model: str, text: str) -> str:
    """Return an embedded circuit with some of its symbols as inputs.

    Args:
        model: Embedded circuit.
        text: Names of the inputs, see `parse_input_names`.

    Raises:
        ConfigError: If the circuit or the text is invalid, or the circuit has other inputs.
    """
    names, file = parse_input_names(text), model.partition("#")[0]
    if not file.endswith(JSON) and names != embedded_inputs(model):
        # Parameters of these files are in radians, and those of the embedded circuit in units of pi.
        raise ConfigError(f"inputs: must be given with the file of the circuit. Given: {text} with {file}")
    return _changed(model, lambda ansatz: ansatz.with_inputs(names))


def _with_feature_map(model: str, text: str, qubits: object) -> str:
    """Return the circuit of a model after a feature map as embedded text."""
    if not isinstance(qubits, int) or isinstance(qubits, bool) or not 1 <= qubits <= MAX_QUBITS:
        given = "none" if qubits is None else format_value(qubits)
        raise ConfigError(f"qubits: must be 1 to {MAX_QUBITS} and given with feature_map. Given: {given}")
    with importing("cirq"):
        from qcnn.circuits import circuits, feature_maps

    ring = circuits.ring(qubits)
    if is_embedded(model):
        return _changed(model, lambda ansatz: feature_maps.with_feature_map(ansatz, ring, text))
    if qubits < MIN_QUBITS:
        raise ConfigError(f"qubits: must be at least {MIN_QUBITS} with {model}. Given: {qubits}")
    ansatz = feature_maps.with_feature_map(circuits.build(model, qubits), ring, text)
    return embed_ansatz(ansatz, f"{model}-{text.partition(',')[0].strip()}{JSON}")


def with_circuits(grid: Any, inputs: str = "") -> Any:
    """Return the grid of a study with its circuit files embedded.

    Args:
        grid: Values of each field.
        inputs: Names of the parameters of the circuits that are inputs, as the field of an experiment.

    Raises:
        ConfigError: If a circuit file is invalid. See `embed_file`.
    """
    if not (isinstance(grid, Mapping) and isinstance(grid.get("model"), list)):
        return grid

    def embedded(model: Any) -> Any:
        return embed_file(model, inputs) if isinstance(model, str) and is_file(model) else model

    return {**grid, "model": [embedded(model) for model in grid["model"]]}


def embed_file(model: str, inputs: str = "") -> str:
    """Return the circuit of a file as embedded text.

    Args:
        model: Path or bucket URI of the file.
        inputs: Names of its parameters that are inputs, as the field of an experiment.

    Raises:
        ConfigError: If the file does not exist, is too large or does not contain a trainable circuit.
    """
    suffix = PurePosixPath(model).suffix
    with _local_path(model) as path:
        read = read_bytes if suffix == QPY else read_input
        content: Any = read("model", path, _MAX_BYTES[suffix], model)
    # Importing cirq takes 1 s, and most experiments have no circuit file.
    with importing("cirq"):
        from qcnn.circuits.formats import cirq_json, openqasm, qpy

    names = parse_input_names(inputs) if inputs else ()
    match suffix:
        case ".qasm":
            ansatz = openqasm.read(content, model, names)
        case ".qpy":
            ansatz = qpy.read(content, model, names)
        case _:
            ansatz = cirq_json.read(content, model)
            ansatz = ansatz.with_inputs(names) if names else ansatz
    return embed_ansatz(ansatz, model)


def embed_ansatz(ansatz: "Ansatz", name: str) -> str:
    """Return a circuit as embedded text, on the first qubits of the ring.

    Args:
        ansatz: Circuit to embed.
        name: Name of its file, or one with an extension of a file.

    Raises:
        ConfigError: If the circuit has gates that cirq cannot write, or is too large.
    """
    from qcnn.circuits.formats import cirq_json

    try:
        return embed(name, cirq_json.to_json(cirq_json.move_to_ring(ansatz, name)))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"model: the circuit must be serializable as cirq JSON ({single_line(error)}). Given: {name}"
        ) from None


@contextlib.contextmanager
def _local_path(model: str) -> Iterator[Path]:
    place = parse_bucket_uri(model)
    if not place:
        yield Path(model)
        return
    folder, _, name = place.folder.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, "circuit")
        with contextlib.closing(open_store(BucketUri(place.scheme, place.bucket, folder))) as store:
            if name not in store.names():
                raise ConfigError(f"model: no such file. Given: {model}")
            store.read(name, path)
        yield path
