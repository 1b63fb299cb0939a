import base64
import lzma
import random

import pytest

from qcnn.circuits.formats import embedded
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping, with_display_values

CONTENT = "[1, 2, 3]" * 100


def _text(content: bytes) -> str:
    return f"a.qasm#{base64.urlsafe_b64encode(content).decode().rstrip('=')}"


def test_embedded_text_contains_name_and_content() -> None:
    text = embedded.embed("gs://bucket/folder/my circuit.qasm", CONTENT)
    assert text.startswith("my_circuit.qasm#")
    assert embedded.embedded_content(text) == CONTENT
    assert from_mapping({"model": text}).model == text


def test_display_name_is_file_name_and_digest() -> None:
    text = embedded.embed("a.json", CONTENT)
    assert embedded.model_display_name(text) == "a.json@820be4ca"
    assert with_display_values({"model": text, "qubits": 4}) == {"model": "a.json@820be4ca", "qubits": 4}
    assert embedded.model_display_name(embedded.embed("a.json", CONTENT + " ")) != embedded.model_display_name(text)
    # The digest does not depend on the compression.
    assert embedded.model_display_name(_text(lzma.compress(CONTENT.encode(), preset=0))) == "a.qasm@820be4ca"
    assert [embedded.model_display_name(model) for model in ("hybrid", "a.qasm", "a:b")] == ["hybrid", "a.qasm", "a:b"]
    assert embedded.with_display_names(f'"model": "{text}", "a": "#"') == '"model": "a.json@820be4ca", "a": "#"'
    # Damaged text has a short display name, too.
    assert len(embedded.model_display_name(text[:-10])) == len("a.json@820be4ca")


@pytest.mark.parametrize(
    "text",
    [
        "a.qasm#",
        "a.qasm#AAAA",
        "a.qasm#%%%",
        "a.png#AAAA",
        "x/a.qasm#AAAA",
        embedded.embed("a.qasm", CONTENT)[:-8],
        _text(lzma.compress(b"\xff\xfe")),
        # 100 MB of zeros are compressed to 15 kB.
        _text(lzma.compress(bytes(100_000_000), preset=1)),
        "a.qasm#" + "A" * embedded.MAX_CHARACTERS,
    ],
    ids=["empty", "no-archive", "no-base64", "no-circuit", "folder", "cut", "no-text", "bomb", "long"],
)
def test_invalid_embedded_text_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^model: must be one of hybrid, deep, or a custom circuit") as error:
        from_mapping({"model": text})
    assert len(str(error.value)) < 450


def test_too_large_circuit_is_rejected() -> None:
    numbers = random.Random(0).randbytes(30_000).hex()
    with pytest.raises(
        ConfigError, match=r"^model: the compressed circuit must have at most 30000 characters, .* Given: big.qasm$"
    ):
        embedded.embed("big.qasm", numbers)
