"""Training process that serves Prometheus metrics and prints JSON logs."""

import dataclasses
import http.client
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from qcnn.experiment.parsing import from_mapping
from tests.forks import started

JOB = "run-train-0-12345678"
# More than the process completes before SIGTERM.
EPOCHS = 100_000
# Epoch after which the metrics are scraped.
_EPOCH = 3


@dataclasses.dataclass(frozen=True)
class Watched:
    """Output and exit code of a process that received SIGTERM, and its metrics after some epochs.

    `times` are the Unix times of its start and of the scrape.
    """

    lines: list[str]
    code: int
    metrics: list[Metric]
    times: tuple[float, float]


def scrape(port: int) -> list[Metric]:
    """Return the metrics that a process serves on a local port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        assert response.status == http.client.OK
        return list(text_string_to_metric_families(response.read().decode()))
    finally:
        connection.close()


def port_in(line: str) -> int | None:
    """Return the metrics port from a log line, or None for other lines."""
    found = re.search(r"metrics on port (\d+)", line)
    return int(found[1]) if found else None


def values(metrics: list[Metric]) -> dict[str, tuple[Mapping[str, str], float]]:
    """Return the labels and value of every metric that has a single value."""
    return {metric.name: (sample.labels, sample.value) for metric in metrics for sample in metric.samples}


def watched(folder: Path, fork_variables: Mapping[str, str]) -> Watched:
    """Fork a training process, scrape its metrics after its third epoch, and send SIGTERM."""
    experiment = from_mapping({"qubits": 4, "epochs": EPOCHS, "strategy": "none", "workers": 1}).to_json()
    variables = {"QCNN_LOG_FORMAT": "json", "QCNN_METRICS_PORT": "0", "QCNN_JOB": JOB}
    folders = ["--workdir", str(folder / "w"), "--logs", str(folder / "l")]
    command = ["-m", "qcnn.trainer.worker", "--experiment", experiment, *folders, "--profiler-port", "0"]
    began = time.time()
    with started(*command, environment={**os.environ, **variables, **fork_variables}) as (process, printed):
        lines = list(_until(printed, f"epoch {_EPOCH}/"))
        port = next(filter(None, map(port_in, lines)), None)
        assert port, lines
        metrics = scrape(port)
        scraped = time.time()
        # The log line of an epoch follows the update of the metric.
        if (epoch := int(values(metrics)["qcnn_epoch"][1])) > _EPOCH:
            lines += _until(printed, f"epoch {epoch}/")
        process.terminate()
        lines += [line.rstrip("\n") for line in printed]
        code = process.wait()
    return Watched(lines, code, metrics, (began, scraped))


def _until(output: Any, text: str) -> Iterator[str]:
    """Yield lines up to the first that contains a text."""
    for line in output:
        yield line.rstrip("\n")
        if text in line:
            return


def objects(lines: list[str]) -> list[dict[str, Any]]:
    """Return the parsed lines of a JSON log."""
    return [json.loads(line) for line in lines]
