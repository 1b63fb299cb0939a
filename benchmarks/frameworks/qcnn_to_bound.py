"""Train an experiment from a JSON file with qcnn, and write the trace of its epochs."""

import json

from benchmarks.frameworks.trace import TrainingTrace, parser
from qcnn.process.library_loading import loading, start_compiler


def main() -> None:
    """Train and write the trace."""
    arguments = parser().parse_args()
    with loading():
        from qcnn import data
        from qcnn.experiment.parsing import from_json
        from qcnn.model.optimizer import values_of
        from qcnn.trainer.distribution.strategies import create_strategy
        from qcnn.trainer.state import TrainingState
        from qcnn.trainer.tensorboard import batch_profile

    trace = TrainingTrace(arguments.started, arguments.limit)
    config = from_json(arguments.task.read_text())
    strategy = create_strategy(config, None)
    start_compiler()
    with batch_profile(range(0), None) as profile:
        training = TrainingState(config, data.generate(config), None, strategy, None)
        while not training.is_complete and not trace.is_over:
            undecided = training.is_undecided
            training.epoch(profile)
            trace.record(values_of(training.model.trainable_variables), undecided=undecided)
            training.go_on()
    trace.save(arguments.trace)
    print(json.dumps({"simulator": training.model.get_layer("quantum").simulator.name}))


if __name__ == "__main__":
    main()
