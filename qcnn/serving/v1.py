"""REST interface of TensorFlow Serving, version 1 (tensorflow.org/tfx/serving/api_rest)."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from qcnn.errors import format_value
from qcnn.serving.errors import bad_request
from qcnn.serving.json_body import parse_object, to_body
from qcnn.serving.signature import Signature, TensorSpec

Form: TypeAlias = Literal["instances", "inputs"]

SIGNATURE = "serving_default"
_TYPES = {"INT32": "DT_INT32", "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE", "BYTES": "DT_STRING"}


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """Values of the inputs by name, and the form of the request, which is that of the answer."""

    inputs: Mapping[str, Any]
    form: Form


def parse_predict(body: bytes, signature: Signature) -> PredictRequest:
    """Return the content of a predict request.

    Raises:
        RequestError: If it is neither of the two forms.
    """
    content = parse_object(body)
    names = [spec.name for spec in signature.inputs]
    if content.get("signature_name") not in (None, "", SIGNATURE):
        given = format_value(content["signature_name"])
        raise bad_request(f"signature_name: must be {SIGNATURE}. Given: {given}")
    if ("instances" in content) == ("inputs" in content):
        given = "both" if "inputs" in content else ", ".join(map(str, content))[:100] or "none"
        raise bad_request(f"body: must have one of instances and inputs. Given: {given}")
    if unknown := [name for name in content if name not in ("signature_name", "instances", "inputs")]:
        raise bad_request(
            f"body: must have only signature_name and one of instances and inputs. Given: {format_value(unknown[0])}"
        )
    if "inputs" in content:
        values = content["inputs"]
        if isinstance(values, dict):
            return PredictRequest(values, "inputs")
        if len(names) > 1:
            raise bad_request(f"inputs: must be an object with {', '.join(names)}. Given: {type(values).__name__}")
        return PredictRequest({names[0]: values}, "inputs")
    rows = content["instances"]
    if not isinstance(rows, list) or not rows:
        raise bad_request(f"instances: must be a list of rows. Given: {format_value(rows)}")
    if not isinstance(rows[0], dict):
        if len(names) > 1:
            raise bad_request(f"instances: must be objects with {', '.join(names)}. Given: {format_value(rows[0])}")
        return PredictRequest({names[0]: rows}, "instances")
    for row in rows:
        if not isinstance(row, dict) or row.keys() != rows[0].keys():
            raise bad_request(f"instances: must be objects with {', '.join(names)}. Given: {format_value(row)}")
    return PredictRequest({name: [row[name] for row in rows] for name in rows[0]}, "instances")


def format_predictions(answers: Mapping[str, npt.NDArray[Any]], form: Form) -> bytes:
    """Return the body of the answer to a predict request.

    Args:
        answers: Outputs by name.
        form: Form of the request.
    """
    values = {name: array.tolist() for name, array in answers.items()}
    if form == "inputs":
        return to_body({"outputs": next(iter(values.values())) if len(values) == 1 else values})
    if len(values) == 1:
        return to_body({"predictions": next(iter(values.values()))})
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return to_body({"predictions": rows})


def format_status(versions: Mapping[int, str]) -> bytes:
    """Return the body of the status of a model, of the states of its versions (model_service.proto)."""
    ok = {"error_code": "OK", "error_message": ""}
    return to_body(
        {
            "model_version_status": [
                {"version": str(version), "state": state, "status": ok} for version, state in versions.items()
            ]
        }
    )


def format_metadata(name: str, version: int, signature: Signature) -> bytes:
    """Return the body of the metadata of a model version (get_model_metadata.proto)."""
    definition = {
        "inputs": _tensors(signature.inputs),
        "outputs": _tensors(signature.outputs),
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    return to_body(
        {
            "model_spec": {"name": name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": {"signature_def": {SIGNATURE: definition}}},
        }
    )


def format_names(names: Iterable[str]) -> bytes:
    """Return the body of the list of models."""
    return to_body({"models": [{"name": name} for name in sorted(names)]})


def format_error(line: str) -> bytes:
    """Return the body of an error."""
    return to_body({"error": line})


def _tensors(specs: Iterable[TensorSpec]) -> dict[str, Any]:
    return {
        spec.name: {
            "dtype": _TYPES[spec.datatype],
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in spec.shape],
                "unknown_rank": False,
            },
            "name": spec.name,
        }
        for spec in specs
    }
