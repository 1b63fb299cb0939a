"""One training process of any role: python -m trainer.worker --help."""

import argparse
import os
from pathlib import Path
from typing import Any

from trainer import config, data
from trainer.cluster import parse_cluster
from trainer.events import ignore, to_pipe
from trainer.startup import end_on_signals, load_tensorflow, one_line_errors


def main() -> None:
    """Train as the process that TF_CONFIG or CLUSTER_SPEC says this is."""
    parser = argparse.ArgumentParser(description="One training process.")
    parser.add_argument("--experiment", required=True, help="the experiment as JSON")
    parser.add_argument("--dataset", required=True, type=Path, help="folder of the dataset")
    parser.add_argument("--workdir", required=True, type=Path, help="folder for checkpoints, continued if it has any")
    parser.add_argument("--logs", required=True, type=Path, help="folder for TensorBoard events")
    parser.add_argument("--events", type=int, help="file descriptor of the pipe that takes events")
    parser.add_argument("--profiler-port", type=int, default=2223, help="port of the profiler server; 0 starts none")
    parser.add_argument("--require-profiler", action="store_true", help="end where that port is taken")
    arguments = parser.parse_args()
    take_signals = end_on_signals()
    send = ignore if arguments.events is None else to_pipe(arguments.events)

    def listener(kind: str, **values: Any) -> None:
        take_signals()
        send(kind, **values)

    with one_line_errors():
        cluster = parse_cluster(os.environ)
        experiment = config.from_json(arguments.experiment)
        dataset = data.load(arguments.dataset)
        listener("state", state="loading TensorFlow")
        load_tensorflow()
        from trainer.fit import train
        from trainer.profiling import serve_profiles

        if arguments.profiler_port:
            serve_profiles(arguments.profiler_port, arguments.require_profiler)
        train(experiment, dataset, arguments.workdir, logs=arguments.logs, cluster=cluster, listener=listener)


if __name__ == "__main__":
    main()
