"""qcnn predict --target vertex: predictions of an endpoint, or of a model for a whole file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

import click
import numpy as np

from qcnn.cli.options.form import dry_run_option
from qcnn.cli.options.settings import place_options
from qcnn.data.layout import LABEL, PREDICTION
from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import Place
from qcnn.storage.uri import in_bucket
from qcnn.tables.formats import check_ending
from qcnn.tables.table import new_table
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.vertex import batch_prediction
from qcnn.targets.vertex.batch_prediction import Samples, read_samples
from qcnn.targets.vertex.client import Vertex
from qcnn.targets.vertex.endpoints import MACHINE, Machines, get_endpoint

# Numbers in a request, which may have 1.5 MB (cloud.google.com/vertex-ai/docs/predictions/get-online-predictions); one
# has less than 50 bytes, its name included.
_CHUNK = 20_000


@click.command()
@click.option(
    "--data",
    required=True,
    metavar="FILE",
    help="CSV, Parquet, npz or JSONL with the columns that the model takes, and perhaps label.",
)
@click.option("--endpoint", "asked", metavar="NAME", help="Endpoint that is asked.")
@click.option("--model", metavar="NAME[@VERSION]", help="Model that predicts FILE as a batch, without an endpoint.")
@click.option(
    "--output",
    metavar="FILE",
    help="File to write, in one of these formats, or gs://BUCKET/FOLDER for a batch.  [default: CSV on stdout]",
)
@click.option("--machine-type", default=MACHINE, show_default=True, help="Machine type of a batch.")
@click.option("--most", type=click.IntRange(1), default=1, show_default=True, help="Machines of a batch.")
@dry_run_option
@place_options
def predict(
    data: str,
    asked: str | None,
    model: str | None,
    output: str | None,
    machine_type: str,
    most: int,
    dry_run: bool,
    place: Place,
) -> None:
    """Predict samples, and print their mean squared error where they have labels.

    FILE may be in a bucket, gs://BUCKET/FILE.csv.
    """
    if bool(asked) == bool(model):
        raise ConfigError(f"predict: takes either --endpoint or --model. Given: {'both' if model else 'none'}")
    target = in_bucket(output or "")
    if model and (target is None or target.scheme != "gs"):
        raise ConfigError(f"output: must be gs://BUCKET/FOLDER for a batch. Given: {output}")
    if dry_run and not model:
        raise ConfigError(f"dry_run: only of a batch, which --model predicts. Given: --endpoint {asked}")
    if output is not None and not model:
        check_ending("output", output)
    samples = read_samples(data)
    vertex = Vertex(place)
    machines = Machines(machine_type, 1, most)
    if model and dry_run:
        click.echo(json.dumps(batch_prediction.described(vertex, model, str(target), machines)[1], indent=2))
        return
    if model:
        _predict_batch(vertex, model, samples, str(target), machines)
        return
    found = list(_predicted(vertex, get_endpoint(vertex, asked or "").name, samples))
    _write(samples, found, output)
    _say_error(samples, found)


def _predicted(vertex: Vertex, endpoint: str, samples: Samples) -> Iterator[float]:
    from google.protobuf import json_format, struct_pb2

    from qcnn.jobs.vertex.client import aiplatform

    most = max(1, _CHUNK // len(samples.columns))
    for start in range(0, len(samples), most):
        chosen = samples.instances(start, start + most)
        instances = [json_format.ParseDict(each, struct_pb2.Value()) for each in chosen]
        request = aiplatform.PredictRequest(endpoint=endpoint)
        aiplatform.PredictRequest.pb(request).instances.extend(instances)
        answer = vertex.ask("PredictionService.predict", request)
        predictions = list(answer.predictions)
        if len(predictions) != len(instances):
            raise BackendError(f"endpoint: {len(instances)} samples have other predictions. Given: {len(predictions)}")
        yield from map(float, predictions)


def _predict_batch(vertex: Vertex, model: str, samples: Samples, output: str, machines: Machines) -> None:
    job = batch_prediction.begin(vertex, model, samples, output, machines)
    click.echo(f"{job.name}: {len(samples)} samples")
    ended = batch_prediction.follow(vertex, job, click.echo)
    where = ended.output_info.gcs_output_directory
    click.echo(f"predictions: {where}")
    failed = ended.completion_stats.failed_count
    if failed:
        raise StepError(f"batch prediction: some samples could not be predicted. Given: {failed} of {len(samples)}")


def _write(samples: Samples, predictions: Sequence[float], output: str | None) -> None:
    columns = dict(samples.columns)
    if "qubit" in columns:
        columns["qubit"] = columns["qubit"].astype(np.int64)
    columns |= {} if samples.label is None else {LABEL: samples.label}
    columns[PREDICTION] = np.array(predictions)
    if output is not None:
        with new_table(output) as write:
            write(columns)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    click.echo(text.getvalue(), nl=False)


def _say_error(samples: Samples, predictions: Sequence[float]) -> None:
    if samples.label is not None:
        click.echo(f"mse {np.mean((np.array(predictions) - samples.label) ** 2):.6f}", err=True)
