"""Prometheus metrics of the server (prometheus.io/docs/practices/naming)."""

import functools
import os

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Folder in which the processes of a server share their metrics (prometheus_client.multiprocess).
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# Model of requests for a model that does not exist: names of clients would make any number of time series.
UNKNOWN = ""


class ServingMetrics:
    """Counters of a server process."""

    def __init__(self) -> None:
        # The time of creation of each series would double their number.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "qcnn_serving_requests", "Answered requests.", ("model", "protocol", "code"), registry=registry
        )
        self._latency = Histogram(
            "qcnn_serving_request_duration_seconds",
            "Time from the end of the headers of a request to its answer.",
            ("model", "protocol"),
            buckets=_BUCKETS,
            registry=registry,
        )
        # Models, protocols and codes are few, and each search takes several locks.
        self._series = functools.cache(self._find_series)
        self._rows = Counter("qcnn_serving_rows", "Predicted rows.", ("model",), registry=registry)
        self._outside = Counter(
            "qcnn_serving_rows_outside_training_range",
            "Rows with a value outside of the range of the training split.",
            ("model", "column"),
            registry=registry,
        )
        self._failures = Counter(
            "qcnn_serving_load_failures", "Versions that could not be loaded.", ("model",), registry=registry
        )

    def count_request(self, model: str, protocol: str, code: int | str, seconds: float) -> None:
        """Count an answered request."""
        requests, latency = self._series(model, protocol, str(code))
        requests.inc()
        latency.observe(seconds)

    def _find_series(self, model: str, protocol: str, code: str) -> tuple[Counter, Histogram]:
        return self._requests.labels(model, protocol, code), self._latency.labels(model, protocol)

    def count_rows(self, model: str, rows: int) -> None:
        """Count predicted rows."""
        self._rows.labels(model).inc(rows)

    def count_outside(self, model: str, column: str, rows: int) -> None:
        """Count rows outside of the range of the training split."""
        self._outside.labels(model, column).inc(rows)

    def count_failure(self, model: str) -> None:
        """Count a version that could not be loaded."""
        self._failures.labels(model).inc()

    def text(self) -> bytes:
        """Return the metrics of all processes of the server in the text format."""
        if SHARED_FOLDER not in os.environ:
            return bytes(generate_latest(self._registry))
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(registry))
