"""qcnn predict --target vertex: predictions of an endpoint, or of a model for a whole file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cli.errors import BackendError, StepError
from cli.options.form import dry_run_option
from cli.vertex.service.connection import Vertex, place_options
from cli.vertex.serving import batch
from cli.vertex.serving.endpoint import MACHINE, Machines, get_endpoint
from cli.vertex.serving.samples import Sample, read_samples
from launchers.vertex.place import Place
from trainer.errors import ConfigError
from trainer.folders import new_file
from trainer.storage.address import in_bucket
from trainer.storage.copies import local_file

# A request may have 1.5 MB (cloud.google.com/vertex-ai/docs/predictions/get-online-predictions); an instance has less
# than 100 bytes.
_CHUNK = 10_000


@click.command()
@click.option("--data", required=True, metavar="FILE", help="CSV or JSONL with qubit, angle (rad) and perhaps label.")
@click.option("--endpoint", "asked", metavar="NAME", help="Endpoint that is asked.")
@click.option("--model", metavar="NAME[@VERSION]", help="Model that predicts FILE as a batch, without an endpoint.")
@click.option("--output", metavar="FILE", help="CSV to write, or gs://BUCKET/FOLDER for a batch.  [default: stdout]")
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
    with local_file(data) as path:
        samples = read_samples(path, data)
    vertex = Vertex(place)
    machines = Machines(machine_type, 1, most)
    if model and dry_run:
        click.echo(json.dumps(batch.described(vertex, model, str(target), machines)[1], indent=2))
        return
    if model:
        _predict_batch(vertex, model, samples, str(target), machines)
        return
    found = list(_predicted(vertex, get_endpoint(vertex, asked or "").name, samples))
    _write(samples, found, output)
    _say_error(samples, found)


def _predicted(vertex: Vertex, endpoint: str, samples: Sequence[Sample]) -> Iterator[float]:
    from google.protobuf import json_format, struct_pb2

    from launchers.vertex.client.library import aiplatform

    for start in range(0, len(samples), _CHUNK):
        chosen = samples[start : start + _CHUNK]
        instances = [json_format.ParseDict(each.instance, struct_pb2.Value()) for each in chosen]
        request = aiplatform.PredictRequest(endpoint=endpoint)
        aiplatform.PredictRequest.pb(request).instances.extend(instances)
        answer = vertex.ask("PredictionService.predict", request)
        predictions = list(answer.predictions)
        if len(predictions) != len(chosen):
            raise BackendError(f"endpoint: {len(chosen)} samples have other predictions. Given: {len(predictions)}")
        yield from map(float, predictions)


def _predict_batch(vertex: Vertex, model: str, samples: Sequence[Sample], output: str, machines: Machines) -> None:
    job = batch.begin(vertex, model, samples, output, machines)
    click.echo(f"{job.name}: {len(samples)} samples")
    ended = batch.follow(vertex, job, click.echo)
    where = ended.output_info.gcs_output_directory
    click.echo(f"predictions: {where}")
    failed = ended.completion_stats.failed_count
    if failed:
        raise StepError(f"batch prediction: some samples could not be predicted. Given: {failed} of {len(samples)}")


def _write(samples: Sequence[Sample], predictions: Sequence[float], output: str | None) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    labelled = samples[0].label is not None
    writer.writerow(["qubit", "angle", "prediction", *(["label"] if labelled else [])])
    for sample, prediction in zip(samples, predictions, strict=True):
        writer.writerow([sample.qubit, sample.angle, prediction, *([sample.label] if labelled else [])])
    if output is None:
        click.echo(text.getvalue(), nl=False)
        return
    with new_file(Path(output)) as unfinished:
        unfinished.write_text(text.getvalue(), encoding="utf-8")


def _say_error(samples: Sequence[Sample], predictions: Sequence[float]) -> None:
    labels = [sample.label for sample in samples if sample.label is not None]
    if labels:
        squares = [(found - label) ** 2 for found, label in zip(predictions, labels, strict=True)]
        click.echo(f"mse {sum(squares) / len(squares):.6f}", err=True)
