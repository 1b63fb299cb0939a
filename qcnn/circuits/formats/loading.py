"""Load circuit files and embed them in experiments, so that each file is read once."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qcnn.circuits.formats.embedded import JSON, QASM, embed, is_file
from qcnn.errors import ConfigError, single_line
from qcnn.input_files import read_input
from qcnn.process.library_loading import importing
from qcnn.storage.store import BucketUri, parse_bucket_uri
from qcnn.storage.sync import open_store

# Maximum bytes of a file, far above the size of circuits that can be embedded.
_MAX_BYTES = {QASM: 2_000_000, JSON: 20_000_000}


def with_embedded_circuit(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an experiment with the circuit file embedded.

    Raises:
        ConfigError: If the circuit file is invalid. See `embed_file`.
    """
    model = fields.get("model")
    return {**fields, "model": embed_file(model)} if isinstance(model, str) and is_file(model) else dict(fields)


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
    with _local_path(model) as path:
        content = read_input("model", path, _MAX_BYTES[QASM if model.endswith(QASM) else JSON], model)
    # Importing cirq takes 1 s, and most experiments have no circuit file.
    with importing("cirq"):
        from qcnn.circuits.formats import cirq_json, openqasm

    ansatz = openqasm.read(content, model) if model.endswith(QASM) else cirq_json.read(content, model)
    try:
        return embed(model, cirq_json.to_json(ansatz))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"model: the circuit must be serializable as cirq JSON ({single_line(error)}). Given: {model}"
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
