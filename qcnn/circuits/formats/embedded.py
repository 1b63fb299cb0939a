"""Circuits embedded in experiments as text, `NAME.qasm#BASE64`, which replaces the circuit file.

Does not import cirq, because every command imports this module.
"""

import base64
import binascii
import functools
import hashlib
import json
import lzma
import re
from pathlib import PurePosixPath

from qcnn.errors import ConfigError, format_value

# Built-in circuits.
MODELS = ("hybrid", "deep")
# Minimum number of qubits of a built-in circuit.
MIN_QUBITS = 4
# Extensions of circuit files: OpenQASM, cirq JSON and Qiskit's QPY.
QASM, JSON, QPY = ".qasm", ".json", ".qpy"
# Fits into a process argument, a pipeline parameter and a Kubernetes object in addition to the other fields.
MAX_CHARACTERS = 30_000
# Limit of the unpacked size, because small text can unpack to any size. A circuit with 10,000 gates has 5 MB.
_MAX_BYTES = 2**24
_MAX_NAME_LENGTH = 60
_DIGEST_DIGITS = 8
# Largest tested number. `hybrid` then has 655,360 gates; each process builds the circuit in 15 s and 0.5 GiB.
MAX_QUBITS = 32_768
_EMBEDDED = re.compile(r"([\w.-]{1,60}\.(?:qasm|json|qpy))#([A-Za-z0-9_-]+)", re.ASCII)
_INVALID_CHARACTER = re.compile(r"[^\w.-]", re.ASCII)


def is_file(model: str) -> bool:
    """Return whether a model is the name of a circuit file."""
    return PurePosixPath(model).suffix in (QASM, JSON, QPY) and "#" not in model


def is_embedded(model: str) -> bool:
    """Return whether a model has the form of an embedded circuit."""
    return bool(_EMBEDDED.fullmatch(model))


def is_function(model: str) -> bool:
    """Return whether a model is a function of a module, neither a built-in model nor an embedded circuit."""
    return model not in MODELS and not is_embedded(model)


def embed(file: str, content: str) -> str:
    """Return a circuit as embedded text.

    Args:
        file: Name of the circuit file.
        content: Circuit as `qcnn.circuits.formats.cirq_json` writes it.

    Raises:
        ConfigError: If the text has too many characters.
    """
    name = _INVALID_CHARACTER.sub("_", PurePosixPath(file).name)[-_MAX_NAME_LENGTH:]
    packed = base64.urlsafe_b64encode(lzma.compress(content.encode())).decode().rstrip("=")
    text = f"{name}#{packed}"
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(
            f"model: the compressed circuit must have at most {MAX_CHARACTERS} characters, not {len(text)}; use a "
            f"function (module:function) instead of the file. Given: {file}"
        )
    return text


@functools.lru_cache(maxsize=8)
def embedded_content(model: str) -> str:
    """Return the content of an embedded circuit.

    Raises:
        ValueError: If the text contains no circuit, is damaged or unpacks to too many bytes.
    """
    found = _EMBEDDED.fullmatch(model)
    if not found or len(model) > MAX_CHARACTERS:
        raise ValueError("not an embedded circuit")
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_BYTES * 2)
    try:
        packed = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        content = reader.decompress(packed, _MAX_BYTES)
    except (binascii.Error, lzma.LZMAError) as error:
        raise ValueError(f"damaged ({error})") from None
    if not reader.eof:
        raise ValueError("truncated, or too large after decompression")
    return content.decode()


def parse_input_names(text: str) -> tuple[str, ...]:
    """Parse the field `inputs`: names of parameters of a circuit, separated by commas.

    Raises:
        ConfigError: If a name is empty or occurs twice.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            f"inputs: must be different names of the circuit, separated by commas, such as x0,x1. Given: "
            f"{format_value(text)}"
        )
    return names


@functools.lru_cache(maxsize=8)
def embedded_inputs(model: str) -> tuple[str, ...]:
    """Return the names of the inputs of an embedded circuit, none for damaged text."""
    try:
        found = json.loads(embedded_content(model))
        return tuple(str(symbol["name"]) for symbol in found[3])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()


def with_display_names(text: str) -> str:
    """Replace embedded circuits in text, such as a line of a log, by their display names."""
    return _EMBEDDED.sub(lambda found: model_display_name(found[0]), text) if "#" in text else text


def model_display_name(model: str) -> str:
    """Return the display name of a model: for an embedded circuit, the name of its file and a short digest.

    >>> model_display_name("hybrid"), model_display_name(embed("mine.qasm", "[]"))
    ('hybrid', 'mine.qasm@4f53cda1')
    """
    if not is_embedded(model):
        return model
    name, _, packed = model.partition("#")
    try:
        content = embedded_content(model)
    except ValueError:
        # Other code rejects damaged text. The display name is short for any text.
        content = packed
    return f"{name}@{hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]}"
