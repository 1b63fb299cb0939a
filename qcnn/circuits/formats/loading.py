"""Load circuit files and embed them in experiments, so that each file is read once."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from qcnn.circuits.formats.embedded import (
    JSON,
    QASM,
    QPY,
    embed,
    embedded_content,
    is_embedded,
    is_file,
    model_display_name,
)
from qcnn.errors import ConfigError, single_line
from qcnn.input_files import read_bytes, read_input
from qcnn.process.library_loading import importing
from qcnn.storage.store import BucketUri, parse_bucket_uri
from qcnn.storage.sync import open_store

if TYPE_CHECKING:
    from qcnn.circuits.ansatz import Ansatz

# Maximum bytes of a file, far above the size of circuits that can be embedded.
_MAX_BYTES = {QASM: 2_000_000, JSON: 20_000_000, QPY: 20_000_000}


def with_embedded_circuit(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an experiment with the circuit file embedded, and its observables in the circuit.

    Args:
        fields: Fields, whose options may be in `options` or at the top level.

    Raises:
        ConfigError: If the circuit file is invalid, see `embed_file`, or the observables are.
    """
    changed, model = dict(fields), fields.get("model")
    if not isinstance(model, str):
        return changed
    if is_file(model):
        model = changed["model"] = embed_file(model)
    options = fields.get("options")
    for place in (changed, dict(options) if isinstance(options, Mapping) else {}):
        text = place.get("observables")
        if isinstance(text, str) and text and is_embedded(model):
            changed["model"] = with_observables(model, text)
            place["observables"] = ""
            if place is not changed:
                changed["options"] = place
    return changed


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
        from qcnn.circuits.formats import cirq_json

    name = model_display_name(model)
    try:
        content = embedded_content(model)
    except ValueError as error:
        raise ConfigError(f"model: must be an embedded circuit ({error}). Given: {name}") from None
    changed = dataclasses.replace(cirq_json.read(content, name), readouts=observables.parse(text))
    return embed(model.partition("#")[0], cirq_json.to_json(changed))


def with_circuits(grid: Any) -> Any:
    """Return the grid of a study with its circuit files embedded.

    Raises:
        ConfigError: If a circuit file is invalid. See `embed_file`.
    """
    if not (isinstance(grid, Mapping) and isinstance(grid.get("model"), list)):
        return grid
    models = [embed_file(model) if isinstance(model, str) and is_file(model) else model for model in grid["model"]]
    return {**grid, "model": models}


def embed_file(model: str) -> str:
    """Return the circuit of a file as embedded text.

    Args:
        model: Path or bucket URI of the file.

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

    match suffix:
        case ".qasm":
            ansatz = openqasm.read(content, model)
        case ".qpy":
            ansatz = qpy.read(content, model)
        case _:
            ansatz = cirq_json.read(content, model)
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
