"""Bodies of requests and answers in JSON, of both protocols."""

import json
from typing import Any

from qcnn.errors import format_value
from qcnn.serving.errors import bad_request


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        RequestError: If it is not a JSON object, or is nested too deeply.
    """
    try:
        content = json.loads(body)
    except RecursionError:
        raise bad_request("body: must not be nested that deeply. Given: JSON beyond the limit") from None
    except ValueError as error:
        raise bad_request(f"body: must be JSON. Given: {format_value(str(error))}") from None
    if not isinstance(content, dict):
        raise bad_request(f"body: must be a JSON object. Given: {type(content).__name__}")
    return content


def to_body(content: Any) -> bytes:
    """Return content as JSON without spaces."""
    return json.dumps(content, separators=(",", ":")).encode()
