"""Responses of a KFP metadata store in protobuf encoding (protobuf.dev/programming-guides/encoding)."""

import struct
from collections.abc import Callable, Mapping, Sequence


def artifact(kind: str, metadata: Mapping[str, str | int | float], uri: str = "minio://mlpipeline/x") -> bytes:
    """Return an encoded artifact (Artifact and Value of ml_metadata/proto/metadata_store.proto)."""
    numbers: dict[type, int] = {int: 1, float: 2, str: 3}
    pairs = b"".join(
        _field(5, _field(1, key) + _field(2, _field(numbers[type(value)], value))) for key, value in metadata.items()
    )
    return _field(1, 9) + _field(3, uri) + _field(8, kind) + pairs


def answering(artifacts: Mapping[str, Sequence[bytes]]) -> Callable[[str, bytes], bytes]:
    """Return the request handler of a store with the given artifacts by run ID."""
    contexts = list(artifacts)

    def answer(method: str, message: bytes) -> bytes:
        if method == "GetContextByTypeAndName":
            known = [index for index, run in enumerate(contexts) if _field(2, run) in message]
            assert _field(1, "system.PipelineRun") in message
            return _field(1, _field(1, known[0])) if known else b""
        return b"".join(_field(1, each) for each in artifacts[contexts[message[1]]])

    return answer


def _field(number: int, content: bytes | str | int | float) -> bytes:
    """Return the encoding of a field of a message."""
    match content:
        case int():
            return bytes([number << 3, content])
        case float():
            return bytes([number << 3 | 1]) + struct.pack("<d", content)
    encoded = content.encode() if isinstance(content, str) else content
    length = len(encoded)
    return bytes([number << 3 | 2, *([length] if length < 128 else [length & 127 | 128, length >> 7])]) + encoded
