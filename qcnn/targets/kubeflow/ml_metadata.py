"""Artifacts of a run from ML Metadata, by gRPC-web at the address of the KFP UI.

The KFP API does not serve artifacts (2.17: "parse input and output artifacts" is a TODO there). The field numbers are
those of ml_metadata/proto/metadata_store.proto and metadata_store_service.proto, 1.17.
"""

from __future__ import annotations

import functools
import struct
import urllib.parse
from typing import Any

from qcnn.targets.artifacts import Artifact
from qcnn.targets.errors import BackendError, CredentialsError
from qcnn.targets.kubeflow.client import KfpBackend, translate_errors

_PACKAGE = "ml_metadata"
_RUN_TYPE = "system.PipelineRun"
_GRPC_WEB = "application/grpc-web+proto"
_HEADER = struct.Struct(">BI")
_TRAILER = 0x80
# Fields of each message as (name, number, type). A type is a scalar or a message; [] marks repeated fields. A map is
# encoded as repeated pairs.
_MESSAGES = {
    "Value": [("int_value", 1, "int64"), ("double_value", 2, "double"), ("string_value", 3, "string")],
    "Pair": [("key", 1, "string"), ("value", 2, "Value")],
    "Artifact": [("uri", 3, "string"), ("custom_properties", 5, "Pair[]"), ("type", 8, "string")],
    "Context": [("id", 1, "int64")],
    "GetContextByTypeAndNameRequest": [("type_name", 1, "string"), ("context_name", 2, "string")],
    "GetContextByTypeAndNameResponse": [("context", 1, "Context")],
    "GetArtifactsByContextRequest": [("context_id", 1, "int64")],
    "GetArtifactsByContextResponse": [("artifacts", 1, "Artifact[]")],
}


class MetadataStore:
    """The metadata store of a backend, by default at the address of the backend."""

    def __init__(self, backend: KfpBackend) -> None:
        self._api = backend.client._run_api.api_client
        given = backend.connection.metadata_host or backend.connection.ui_host
        self._address = (given or self._api.configuration.host).rstrip("/")

    def artifacts(self, run: str) -> list[Artifact]:
        """Return the artifacts that a run has created so far.

        Raises:
            BackendError: If the metadata store is unavailable.
        """
        found = self._call("GetContextByTypeAndName", type_name=_RUN_TYPE, context_name=run)
        if not found.HasField("context"):
            return []
        answer = self._call("GetArtifactsByContext", context_id=found.context.id)
        return [
            Artifact(artifact.type, artifact.uri, {pair.key: _plain(pair.value) for pair in artifact.custom_properties})
            for artifact in answer.artifacts
        ]

    def _call(self, method: str, **arguments: Any) -> Any:
        from google.protobuf.message import DecodeError

        request = _messages()[f"{method}Request"](**arguments).SerializeToString()
        failures: list[Exception] = []
        for address in _possible_addresses(self._address):
            try:
                with translate_errors(address):
                    answer = self._api.call_api(
                        f"/{_PACKAGE}.MetadataStoreService/{method}",
                        "POST",
                        header_params={"Content-Type": _GRPC_WEB, "Accept": _GRPC_WEB, "X-Grpc-Web": "1"},
                        body=_HEADER.pack(0, len(request)) + request,
                        auth_settings=["Bearer"],
                        _preload_content=False,
                        _host=address,
                    )
                response: Any = _messages()[f"{method}Response"]()
                response.ParseFromString(_parse_response(answer.data, answer.headers))
            except (BackendError, DecodeError) as error:
                failures.append(error)
            else:
                self._address = address
                return response
        for failure in failures:
            if isinstance(failure, CredentialsError):
                raise failure
        raise BackendError(
            f"metadata store: no response; --metadata-host must be the URL of the KFP UI or its proxy. "
            f"Given: {self._address}"
        )


def _possible_addresses(address: str) -> list[str]:
    """Return the candidate URLs of the store: the address itself and, as in full Kubeflow, its host."""
    parts = urllib.parse.urlsplit(address if "://" in address else f"https://{address}")
    return list(dict.fromkeys((parts.geturl(), f"{parts.scheme}://{parts.netloc}")))


def _parse_response(body: bytes, headers: Any) -> bytes:
    """Return the message in a response.

    Raises:
        BackendError: If the response has no message.
    """
    message, rest = None, body
    while len(rest) >= _HEADER.size:
        kind, size = _HEADER.unpack_from(rest)
        content, rest = rest[_HEADER.size : _HEADER.size + size], rest[_HEADER.size + size :]
        if not kind & _TRAILER and len(content) == size:
            message = content
    if message is None or "grpc-web" not in headers.get("Content-Type", ""):
        raise BackendError(headers.get("grpc-message") or "no gRPC-web")
    return message


def _plain(value: Any) -> int | float | str | None:
    for name in ("int_value", "double_value", "string_value"):
        if value.HasField(name):
            plain: int | float | str = getattr(value, name)
            return plain
    return None


@functools.cache
def _messages() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="qcnn/metadata_store.proto", package=_PACKAGE)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            base = kind.removesuffix("[]")
            label = kinds.LABEL_REPEATED if base != kind else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if base in _MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{base}"
            else:
                added.type = kinds.Type.Value(f"TYPE_{base.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }
