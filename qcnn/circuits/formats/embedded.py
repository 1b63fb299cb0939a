"""A circuit as text of an experiment: `NAME.qasm#BASE64` holds it, so that whoever reads the experiment needs no file.

Imports no cirq: the experiment's own description does, and is read by every command.
"""

import base64
import binascii
import functools
import hashlib
import lzma
import re
from pathlib import PurePosixPath

from qcnn.errors import ConfigError

# Circuits that need no file.
MODELS = ("hybrid", "deep")
# Files of circuits: OpenQASM, and cirq's JSON.
QASM, JSON = ".qasm", ".json"
# What an argument of a process, a parameter of a pipeline and an object of Kubernetes can hold beside all else.
MAX_CHARACTERS = 30_000
# A text of so many characters may unpack to anything; that of 10,000 gates has 5 MB.
_MAX_BYTES = 2**24
_MAX_NAME_LENGTH = 60
_DIGEST_DIGITS = 8
# The most that was tried: `hybrid` then has 655,360 gates, which each process makes and reads in a quarter of a minute
# and keeps in half a GiB.
MAX_QUBITS = 32_768
_EMBEDDED = re.compile(r"([\w.-]{1,60}\.(?:qasm|json))#([A-Za-z0-9_-]+)", re.ASCII)
_INVALID_CHARACTER = re.compile(r"[^\w.-]", re.ASCII)


def is_file(model: str) -> bool:
    """Whether a model is the name of a circuit's file."""
    return PurePosixPath(model).suffix in (QASM, JSON) and "#" not in model


def is_embedded(model: str) -> bool:
    """Whether a model has the form of a text that holds a circuit."""
    return bool(_EMBEDDED.fullmatch(model))


def embed(file: str, content: str) -> str:
    """Return the text that holds a circuit, of its file's name and its content.

    The content is as `qcnn.circuits.formats.cirq_json` writes it.

    Raises:
        ConfigError: it has too many characters.
    """
    name = _INVALID_CHARACTER.sub("_", PurePosixPath(file).name)[-_MAX_NAME_LENGTH:]
    packed = base64.urlsafe_b64encode(lzma.compress(content.encode())).decode().rstrip("=")
    text = f"{name}#{packed}"
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(
            f"model: the circuit must fit into {MAX_CHARACTERS} characters once packed; this one takes {len(text)}. "
            f"Name a function that makes it instead, as module:function. Given: {file}"
        )
    return text


@functools.lru_cache(maxsize=8)
def embedded_content(model: str) -> str:
    """Return the content that a text holds.

    Raises:
        ValueError: it holds none, or is damaged or too large.
    """
    found = _EMBEDDED.fullmatch(model)
    if not found or len(model) > MAX_CHARACTERS:
        raise ValueError("no text that holds a circuit")
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_BYTES * 2)
    try:
        packed = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        content = reader.decompress(packed, _MAX_BYTES)
    except (binascii.Error, lzma.LZMAError) as error:
        raise ValueError(f"damaged ({error})") from None
    if not reader.eof:
        raise ValueError("cut off, or too large once unpacked")
    return content.decode()


def with_display_names(text: str) -> str:
    """Return text, such as a line of a log, with the circuits that it holds as people read them."""
    return _EMBEDDED.sub(lambda found: model_display_name(found[0]), text) if "#" in text else text


def model_display_name(model: str) -> str:
    """Return a model as people read it: of a text that holds a circuit the file's name and what tells it from others.

    >>> shown("hybrid"), shown(hold("mine.qasm", "[]"))
    ('hybrid', 'mine.qasm@4f53cda1')
    """
    if not is_embedded(model):
        return model
    name, _, packed = model.partition("#")
    try:
        content = embedded_content(model)
    except ValueError:
        # Refused elsewhere; what is shown has an end all the same.
        content = packed
    return f"{name}@{hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]}"
