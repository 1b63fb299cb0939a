"""Predictions by a server: this one, TensorFlow Serving or KServe."""

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import urllib3

from qcnn.data.samples import LABEL
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.results.batch_prediction import PredictionSummary, Progress, ReportText, no_progress, open_output
from qcnn.results.predictions import PredictionFiles
from qcnn.storage.store import UnreachableError
from qcnn.tables.table import Table, open_input

_URL = re.compile(
    r"(?P<base>https?://[^/?#]+(?:/[^?#]*)?/(?P<protocol>v1|v2)/models/[^/:?#]+(?:/(?:versions|labels)/[^/:?#]+)?)/?"
)
# Rows of a request, and seconds of an answer.
_ROWS, _SECONDS = 2048, 120.0
# A full server answers with 503. A connection is retried, too.
_RETRIES = 5


class _Input(NamedTuple):
    """Input of the served model, with its number of columns, 0 for one number a row, and its data type of v2."""

    name: str
    columns: int
    datatype: str


class ServedClient:
    """Client of a model on a server."""

    def __init__(self, url: str, retries: int = _RETRIES) -> None:
        """Create a client.

        Args:
            url: URL of the model: http://HOST:PORT/v1/models/NAME, or /v2/models/NAME, with a version if any.
            retries: Maximum number of retries of a request.

        Raises:
            ConfigError: If the URL has another form.
        """
        match = _URL.fullmatch(url)
        if match is None:
            raise ConfigError(
                f"url: must be http://HOST:PORT/v1/models/NAME or /v2/models/NAME. Given: {format_value(url)}"
            )
        self._base, self._is_v1 = match["base"], match["protocol"] == "v1"
        retry = urllib3.Retry(
            retries, backoff_factor=0.2, status_forcelist=(503,), allowed_methods=None, raise_on_status=False
        )
        self._pool = urllib3.PoolManager(retries=retry, timeout=urllib3.Timeout(connect=10, read=_SECONDS))

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def inputs(self) -> list[_Input]:
        """Return the inputs of the model.

        Raises:
            ConfigError: If the server does not have the model.
            UnreachableError: If the server does not answer.
        """
        with self._understood():
            if not self._is_v1:
                return [
                    _Input(str(each["name"]), _width(each["shape"]), str(each["datatype"]))
                    for each in self._request("GET", "")["inputs"]
                ]
            metadata = self._request("GET", "/metadata")["metadata"]["signature_def"]["signature_def"]
            return [
                _Input(name, _width([int(dim["size"]) for dim in each["tensor_shape"].get("dim", [])]), "")
                for name, each in metadata["serving_default"]["inputs"].items()
            ]

    def predict(self, inputs: Mapping[_Input, npt.NDArray[np.float64]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name, (rows,) or (rows, columns), of inputs.

        Raises:
            ConfigError: If the server rejects the rows.
            UnreachableError: If the server does not answer.
        """
        rows = len(next(iter(inputs.values())))
        if self._is_v1:
            content = {"inputs": {each.name: _as_list(each, values) for each, values in inputs.items()}}
            answer = self._request("POST", ":predict", content).get("outputs")
            outputs = answer if isinstance(answer, dict) else {"prediction": answer}
        else:
            tensors = [
                {
                    "name": each.name,
                    "shape": [*values.shape],
                    "datatype": each.datatype,
                    "data": np.ravel(_as_list(each, values)).tolist(),
                }
                for each, values in inputs.items()
            ]
            # The protocol does not require an ID, but KServe's server fails without it.
            request = {"id": uuid.uuid4().hex, "inputs": tensors}
            with self._understood():
                outputs = {
                    each["name"]: np.reshape(each["data"], each["shape"])
                    for each in self._request("POST", "/infer", request)["outputs"]
                }
        with self._understood():
            arrays = {name: np.array(values) for name, values in outputs.items()}
            if not arrays or any(len(array) != rows or array.ndim > 2 for array in arrays.values()):
                raise ValueError
        return arrays

    def _request(self, method: str, path: str, content: Any = None) -> Any:
        url = f"{self._base}{path}"
        try:
            answer = self._pool.request(method, url, json=content) if content else self._pool.request(method, url)
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"url: the server does not answer ({_reason(error)}). Given: {url}") from None
        with self._understood():
            found = json.loads(answer.data)
            if answer.status >= 400:
                raise ConfigError(f"url: the server answers {answer.status} ({_line(found)}). Given: {url}")
        return found

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        """Context manager that translates errors of an answer of another form."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise ConfigError(f"url: must be that of a model server. Given: {self._base}") from None


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    return type(error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error).__name__


def _line(answer: Any) -> str:
    return format_value(answer["error"] if isinstance(answer, dict) and "error" in answer else answer)


def _width(shape: Sequence[int]) -> int:
    return int(shape[1]) if len(shape) > 1 else 0


def _as_list(of: _Input, values: npt.NDArray[np.float64]) -> list[Any]:
    # A server of TensorFlow accepts integers for its integer input only without a decimal point.
    whole = of.name == "qubit" and bool((values == np.floor(values)).all())
    return (values.astype(np.int64) if whole else values).tolist()  # type: ignore[no-any-return]


def predict_by_url(
    url: str,
    files: PredictionFiles,
    progress: Progress = no_progress,
    report: ReportText = print,
    rows_of_request: int = _ROWS,
) -> PredictionSummary:
    """Predict every row of a file by a server, and write the predictions atomically or print them.

    The inputs of excitations are the columns of their names. Other inputs are the columns of the file without `label`,
    in their order. The server checks the rows.

    Args:
        url: URL of the model, see `ServedClient`.
        files: Input and output files.
        progress: Context manager that reports progress.
        report: Callback for the text of printed predictions, one call per chunk.
        rows_of_request: Maximum number of rows of a request.

    Raises:
        ArtifactError: If the data cannot be used, or an output cannot be written.
        ConfigError: If the server rejects the rows, or does not have the model.
        UnreachableError: If the server does not answer.
    """
    if files.report:
        raise ConfigError(f"report: must be omitted with --url. Given: {files.report}")
    files.check_distinct()
    rows = 0
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(contextlib.closing(ServedClient(url)))
        inputs = client.inputs()
        table = stack.enter_context(open_input(files.data))
        columns = _columns_of(inputs, table)
        report_rows = stack.enter_context(progress(table.rows))
        with open_output(files, report, stack) as write:
            for piece in table.pieces([name for names in columns.values() for name in names]):
                for start in range(0, len(piece), rows_of_request):
                    part = {name: values[start : start + rows_of_request] for name, values in piece.columns.items()}
                    write({**part, **_output_columns(client.predict(_arrays(columns, part)))})
                    count = len(next(iter(part.values())))
                    rows += count
                    report_rows(count)
    return PredictionSummary(rows, {})


def _columns_of(inputs: Sequence[_Input], table: Table) -> dict[_Input, list[str]]:
    """Return the columns of each input.

    Raises:
        ArtifactError: If the data do not have them.
    """
    names = [name for name in table.names if name != LABEL]
    if len(inputs) == 1 and inputs[0].columns:
        if len(names) != inputs[0].columns:
            raise ArtifactError(
                f"data: must have the {inputs[0].columns} columns that the model takes, in their order, and no others "
                f"but {LABEL}. Given: {len(names)} in {table.address}"
            )
        return {inputs[0]: names}
    if missing := [each.name for each in inputs if each.name not in names]:
        raise ArtifactError(f"data: must have the column {missing[0]}. Given: {', '.join(names)} in {table.address}")
    return {each: [each.name] for each in inputs}


def _arrays(
    columns: Mapping[_Input, Sequence[str]], part: Mapping[str, npt.NDArray[Any]]
) -> dict[_Input, npt.NDArray[np.float64]]:
    return {
        each: np.stack([part[name] for name in names], axis=1) if each.columns else part[names[0]]
        for each, names in columns.items()
    }


def _output_columns(outputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, values in outputs.items():
        if values.ndim == 2:
            columns.update({f"{name}_{number}": column for number, column in enumerate(values.T)})
        else:
            columns[name] = values.astype(object) if values.dtype.kind == "U" else values
    return columns
