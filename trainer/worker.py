"""One training process of any role: python -m qcnn.trainer.worker --help."""

import argparse
import contextlib
import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn import data, experiment_io, requirements
from qcnn import experiment as config
from qcnn.environment import FOLDERS, HyperparameterReporter, address, in_pod, requested_gpus
from qcnn.model import checkpoints
from qcnn.model.history import is_complete
from qcnn.monitoring import logs as log_lines
from qcnn.monitoring.logs import PORT_VARIABLE
from qcnn.startup import (
    end_on_signals,
    exit_immediately,
    load_tensorflow,
    one_line_errors,
    open_standard_streams,
)
from qcnn.storage.copies import local_copy, working_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import followed
from qcnn.trainer.distribution.roles import ClusterConfig, check_roles, parse_cluster
from qcnn.trainer.events import FINISHED, Listener, ignore, to_pipe

if TYPE_CHECKING:
    from qcnn.trainer.programs import CompiledFunctions

# What the parser calls the value of a word: an address has the name of one.
_WORD = "word_{}"


def main() -> None:
    """Train in the role that TF_CONFIG or CLUSTER_SPEC gives this process; with --further, once for each line."""
    open_standard_streams()
    parser = argparse.ArgumentParser(description="One training process. An ADDRESS is a local folder or in a bucket.")
    parser.add_argument("--experiment", required=True, help="the experiment as JSON")
    words = parser.add_argument_group("words laid over the experiment, as a tuner gives those that it searches")
    for word in config.ALL_FIELDS:
        words.add_argument(f"--{word}", dest=_WORD.format(word), metavar="VALUE")
    at = functools.partial(address, environment=os.environ)
    parser.add_argument("--dataset", metavar="ADDRESS", type=at, help="of the dataset; made here if not given")
    for name, what in {
        "workdir": "for checkpoints, continued if it has any",
        "logs": "for TensorBoard events",
        "export": "for the trained model, which the chief exports; empty for none",
    }.items():
        variable, default = FOLDERS[name], os.environ.get(FOLDERS[name])
        parser.add_argument(
            f"--{name}",
            metavar="ADDRESS",
            type=at,
            required=name != "export" and not default,
            default=default,
            help=f"{what}; {variable} where not given",
        )
    parser.add_argument("--events", type=int, help="file descriptor of the pipe that takes events")
    parser.add_argument("--profiler-port", type=int, default=2223, help="port of the profiler server; 0 starts none")
    parser.add_argument(
        "--further", action="store_true", help="then take the arguments of others from stdin, a line of JSON each"
    )
    parser.add_argument("--require-profiler", action="store_true", help="end if that port is taken")
    arguments = parser.parse_args()
    end_on_signals()
    send = ignore if arguments.events is None else to_pipe(arguments.events)
    programs = _train(arguments, send, None)
    while arguments.further:
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
    """Run one training with the programs of those before it, None for the first; return what the next can use.

    One that serves or evaluates lives for one training, and leaves nothing.
    """
    with one_line_errors(), contextlib.ExitStack() as stack:
        cluster = parse_cluster(os.environ)
        experiment = experiment_io.with_circuit_read(experiment_io.from_json(arguments.experiment, _typed(arguments)))
        check_roles(experiment, cluster)
        if (requested := requested_gpus(os.environ)) or experiment.gpu_fields:
            # Before data are made: what is paid for is not used for that either.
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
        if cluster and cluster.role == requirements.EVALUATOR:
            _evaluate(arguments, experiment, dataset, send, observer)
            return None
        is_chief = cluster is None or cluster.is_chief
        patience = experiment.options.heartbeat_timeout_seconds
        workdir = stack.enter_context(working_copy(arguments.workdir, filled=True, written=is_chief, patience=patience))
        logs = stack.enter_context(working_copy(arguments.logs, written=is_chief, patience=patience))
        start_from(experiment, arguments.workdir, workdir.folder)
        reports = HyperparameterReporter(os.environ)

        def listener(kind: str, **values: Any) -> None:
            workdir.check()
            logs.check()
            send(kind, **values)
            if is_chief:
                reports.listen(kind, **values)

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
            to_all = in_pod(os.environ) and not (cluster and cluster.is_here)
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
            programs=programs,
        )
        if arguments.export and is_chief:
            from qcnn.results.export import export_to

            export_to(workdir.folder, arguments.export)
        return programs


def _observer(
    experiment: config.ExperimentConfig, cluster: ClusterConfig | None, stack: contextlib.ExitStack
) -> Listener:
    """Have the log say which process this is, and serve metrics where that is asked for; return what they observe."""
    # The operator tells a single process nothing; it has the only role there is.
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
    """Serve the chief of a training as one of its workers or parameter servers."""
    send("state", state="loading TensorFlow")
    load_tensorflow()
    from qcnn.trainer.distribution.parameter_servers import serve
    from qcnn.trainer.distribution.strategies import set_up

    if cluster.role == requirements.WORKER:
        set_up(experiment)

    def is_over() -> bool:
        with local_copy(arguments.workdir) as workdir:
            saved = checkpoints.load_latest(workdir / checkpoints.FOLDER)
        return saved is not None and is_complete(saved.history, experiment, saved.tried)

    send("state", state="serving")
    serve(cluster, is_over, experiment.options.heartbeat_timeout_seconds)


def _evaluate(
    arguments: argparse.Namespace,
    experiment: config.ExperimentConfig,
    dataset: data.Dataset,
    send: Listener,
    observer: Listener,
) -> None:
    """Measure the checkpoints of a training in folders of this process' own below those of the training."""
    load_tensorflow()
    from qcnn.trainer.distribution.strategies import set_up
    from qcnn.trainer.evaluator import FOLDER, evaluate_beside

    set_up(experiment)
    with contextlib.ExitStack() as stack:
        look = stack.enter_context(followed(arguments.workdir, f"{checkpoints.FOLDER}/"))
        folder, logs = (
            stack.enter_context(
                working_copy(
                    f"{at.rstrip('/')}/{FOLDER}",
                    filled=filled,
                    written=True,
                    patience=experiment.options.heartbeat_timeout_seconds,
                )
            )
            for at, filled in ((arguments.workdir, True), (arguments.logs, False))
        )

        def listener(kind: str, **values: Any) -> None:
            folder.check()
            logs.check()
            send(kind, **values)

        evaluate_beside(experiment, dataset, look, folder.folder, logs.folder, listener=listener, observer=observer)


def _typed(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the words that were given one by one, as text."""
    found = {word: getattr(arguments, _WORD.format(word)) for word in config.ALL_FIELDS}
    return {word: text for word, text in found.items() if text is not None}


def start_from(experiment: config.ExperimentConfig, address: str, folder: Path) -> None:
    """Copy the checkpoint that `continue_from` names into a training in a bucket that has none of its own.

    For local folders the process that starts the workers does that, before any of them can look.
    """
    source = experiment.options.continue_from
    if source and parse_bucket_uri(address):
        with local_copy(source) as checkpoint:
            checkpoints.copy_latest(checkpoint, folder)


if __name__ == "__main__":
    with exit_immediately():
        main()
