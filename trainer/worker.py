"""One training process of any role: python -m qcnn.trainer.worker --help."""

import argparse
import contextlib
import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn import data
from qcnn.experiment import config, parsing, requirements
from qcnn.model import checkpoints
from qcnn.model.history_file import HISTORY, is_history_file
from qcnn.monitoring import logs as log_lines
from qcnn.monitoring.logs import PORT_VARIABLE
from qcnn.monitoring.trainjob_status import TrainJobReporter
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS
from qcnn.process.environment import FOLDERS, HyperparameterReporter, address, in_pod, requested_gpus
from qcnn.process.error_lines import exit_immediately, one_line_errors
from qcnn.process.error_transfer import ERROR, to_values
from qcnn.process.library_loading import load_tensorflow
from qcnn.process.roles import EVALUATOR, WORKER
from qcnn.process.signals import end_on_signals
from qcnn.process.standard_streams import open_standard_streams
from qcnn.storage.copies import local_copy, working_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import updated_copy
from qcnn.tracking.background import tracked
from qcnn.trainer.distribution.roles import ClusterConfig, check_roles, parse_cluster
from qcnn.trainer.events import FINISHED, Listener, ignore, stop_requests, to_pipe

if TYPE_CHECKING:
    from qcnn.trainer.programs import CompiledFunctions

# Attribute of the parser for the value of a field, because a field and a folder have the same name.
_FIELD = "field_{}"


def main() -> None:
    """Train in the role of TF_CONFIG or CLUSTER_SPEC, and with --further once for each line of stdin."""
    open_standard_streams()
    parser = argparse.ArgumentParser(
        description="Run a training process. A URI is a local path or a bucket URI.",
    )
    parser.add_argument("--experiment", metavar="JSON", required=True, help="Experiment as JSON.")
    fields = parser.add_argument_group("experiment fields that override --experiment, for hyperparameter tuning")
    for field in config.ALL_FIELDS:
        fields.add_argument(f"--{field}", dest=_FIELD.format(field), metavar="VALUE")
    to_uri = functools.partial(address, environment=os.environ)
    parser.add_argument(
        "--dataset", metavar="URI", type=to_uri, help="Dataset folder. By default the dataset is generated."
    )
    for name, purpose in {
        "workdir": "Training folder with checkpoints to write and to resume from.",
        "logs": "Folder for TensorBoard events.",
        "export": "Folder for the model that the chief exports. Empty: no export.",
    }.items():
        variable, default = FOLDERS[name], os.environ.get(FOLDERS[name])
        parser.add_argument(
            f"--{name}",
            metavar="URI",
            type=to_uri,
            required=name != "export" and not default,
            default=default,
            help=f"{purpose} Default: ${variable}.",
        )
    parser.add_argument(
        "--metric",
        choices=SELECTION_METRICS,
        default=VAL_LOSS,
        help="Metric to report to the tuner of Vertex AI, if this process is a trial.",
    )
    parser.add_argument("--events", metavar="FD", type=int, help="File descriptor of the pipe for events.")
    parser.add_argument(
        "--profiler-port", metavar="PORT", type=int, default=2223, help="Port of the profiler server. 0: no server."
    )
    parser.add_argument(
        "--further",
        action="store_true",
        help="Then read arguments of further training runs from stdin, one JSON line each, up to a number of programs.",
    )
    parser.add_argument(
        "--confirm-epochs",
        action="store_true",
        help="After each epoch, send an event, and read a line from stdin: continue or stop.",
    )
    parser.add_argument("--require-profiler", action="store_true", help="Exit if the profiler port is in use.")
    arguments = parser.parse_args()
    end_on_signals()
    send = ignore if arguments.events is None else to_pipe(arguments.events)
    programs = _train(arguments, send, None)
    while arguments.further and not (programs and programs.is_full):
        sys.stdout.flush()
        send(FINISHED)
        line = sys.stdin.readline()
        if not line:
            break
        arguments = parser.parse_args(json.loads(line))
        programs = _train(arguments, send, programs)


def _train(
    arguments: argparse.Namespace, send: Listener, programs: "CompiledFunctions | None"
) -> "CompiledFunctions | None":
    """Run one training run with the compiled functions of earlier ones, and return those for the next.

    Servers and evaluators run for one training run and return None.
    """
    with one_line_errors(lambda error: send(ERROR, **to_values(error))), contextlib.ExitStack() as stack:
        cluster = parse_cluster(os.environ)
        overrides = _overrides(arguments)
        experiment = parsing.with_circuit_read(parsing.from_json(arguments.experiment, overrides))
        check_roles(experiment, cluster)
        if (requested := requested_gpus(os.environ)) or experiment.gpu_fields:
            # Check before the data are generated, which would waste paid GPU time.
            send("state", state="loading TensorFlow")
            load_tensorflow()
            from qcnn.trainer.distribution.strategies import check_gpus

            check_gpus(requested, experiment.gpu_fields)
        observer = _observer(experiment, cluster, stack)
        serves = cluster is not None and cluster.role in requirements.serving(experiment.strategy)
        if not serves or experiment.needs_row_count:
            dataset = data.load_or_generate(arguments.dataset, experiment)
            experiment = data.with_file_metadata(experiment, dataset)
        if cluster and serves:
            _serve(arguments, experiment, cluster, send)
            return None
        if cluster and cluster.role == EVALUATOR:
            _evaluate(arguments, experiment, dataset, send, observer)
            return None
        is_chief = cluster is None or cluster.is_chief
        patience = experiment.options.heartbeat_timeout_seconds
        # A checkpoint refers to rows of the history.
        workdir = stack.enter_context(
            working_copy(arguments.workdir, filled=True, written=is_chief, patience=patience, is_first=is_history_file)
        )
        logs = stack.enter_context(working_copy(arguments.logs, written=is_chief, patience=patience))
        copy_initial_checkpoint(experiment, arguments.workdir, workdir.folder)
        reporters: list[Listener] = []
        if is_chief:
            uris = {"training": arguments.workdir, "logs": arguments.logs, "model": arguments.export or ""}
            reporters = [
                stack.enter_context(tracked(os.environ, experiment, workdir.folder, uris)),
                HyperparameterReporter(os.environ, arguments.metric).listen,
                stack.enter_context(TrainJobReporter(os.environ, experiment.epochs)).listen,
            ]

        def listener(kind: str, **values: Any) -> None:
            workdir.check()
            logs.check()
            send(kind, **values)
            for reporter in reporters:
                reporter(kind, **values)

        def publish() -> None:
            workdir.flush()
            logs.flush()

        is_first = programs is None
        if is_first:
            listener("state", state="loading TensorFlow")
            load_tensorflow()
        from qcnn.trainer.distribution.strategies import set_up
        from qcnn.trainer.loop import train
        from qcnn.trainer.programs import CompiledFunctions
        from qcnn.trainer.tensorboard import serve_profiles

        set_up(experiment)
        if is_first and arguments.profiler_port:
            to_all = in_pod(os.environ) and not (cluster and cluster.is_local)
            serve_profiles(arguments.profiler_port, arguments.require_profiler, to_all=to_all)
        programs = programs or CompiledFunctions()
        train(
            experiment,
            dataset,
            workdir.folder,
            logs=logs.folder,
            cluster=cluster,
            listener=listener,
            observer=observer,
            publish=publish,
            should_stop=stop_requests(send) if arguments.confirm_epochs else lambda epoch: False,
            programs=programs,
        )
        if arguments.export and is_chief:
            from qcnn.results.export import export_to

            export_to(workdir.folder, arguments.export)
        return programs


def _observer(
    experiment: config.ExperimentConfig, cluster: ClusterConfig | None, stack: contextlib.ExitStack
) -> Listener:
    """Add the role to log lines, start the metrics server if requested, and return its listener."""
    # The operator sets no variables for a single process, which has the only role of the experiment.
    role, index = (cluster.role, cluster.index) if cluster else (next(iter(experiment.replicas)), 0)
    log_lines.identify(role, index)
    if PORT_VARIABLE not in os.environ:
        return ignore
    from qcnn.monitoring.metrics import training_metrics

    metrics = stack.enter_context(training_metrics(os.environ, role, index))
    metrics.listen("asked", epochs=experiment.epochs)
    return metrics.listen


def _serve(
    arguments: argparse.Namespace,
    experiment: config.ExperimentConfig,
    cluster: ClusterConfig,
    send: Listener,
) -> None:
    """Serve the chief as a worker or parameter server."""
    send("state", state="loading TensorFlow")
    load_tensorflow()
    from qcnn.trainer.distribution.parameter_servers import serve
    from qcnn.trainer.distribution.strategies import set_up

    if cluster.role == WORKER:
        set_up(experiment)

    def is_over() -> bool:
        with local_copy(arguments.workdir) as workdir:
            saved = checkpoints.load_latest(workdir / checkpoints.FOLDER)
        return saved is not None and saved.completes(experiment)

    send("state", state="serving")
    serve(cluster, is_over, experiment.options.heartbeat_timeout_seconds)


def _evaluate(
    arguments: argparse.Namespace,
    experiment: config.ExperimentConfig,
    dataset: data.Dataset,
    send: Listener,
    observer: Listener,
) -> None:
    """Evaluate the checkpoints of a training run, with outputs in subfolders of its folders."""
    load_tensorflow()
    from qcnn.trainer.distribution.strategies import set_up
    from qcnn.trainer.evaluator import FOLDER, evaluate_checkpoints

    set_up(experiment)
    with contextlib.ExitStack() as stack:
        current_folder = stack.enter_context(updated_copy(arguments.workdir, (f"{checkpoints.FOLDER}/", HISTORY)))
        folder, logs = (
            stack.enter_context(
                working_copy(
                    f"{uri.rstrip('/')}/{FOLDER}",
                    filled=filled,
                    written=True,
                    patience=experiment.options.heartbeat_timeout_seconds,
                )
            )
            for uri, filled in ((arguments.workdir, True), (arguments.logs, False))
        )

        def listener(kind: str, **values: Any) -> None:
            folder.check()
            logs.check()
            send(kind, **values)

        evaluate_checkpoints(
            experiment, dataset, current_folder, folder.folder, logs.folder, listener=listener, observer=observer
        )


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the experiment fields that override --experiment, as text."""
    values = {field: getattr(arguments, _FIELD.format(field)) for field in config.ALL_FIELDS}
    return {field: text for field, text in values.items() if text is not None}


def copy_initial_checkpoint(experiment: config.ExperimentConfig, uri: str, folder: Path) -> None:
    """Copy the checkpoint of `continue_from` into a training folder in a bucket that has none.

    For local folders, the parent process does this before it starts the workers.

    Args:
        experiment: Experiment.
        uri: URI of the training folder.
        folder: Local copy of the training folder.
    """
    source = experiment.options.continue_from
    if source and parse_bucket_uri(uri):
        with local_copy(source) as checkpoint:
            checkpoints.copy_latest(checkpoint, folder)


if __name__ == "__main__":
    with exit_immediately():
        main()
