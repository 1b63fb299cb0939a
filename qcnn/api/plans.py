"""What training an experiment will take, before it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from qcnn import data
from qcnn.api.experiments import Experiment, checked
from qcnn.extras import explained
from qcnn.frozen import frozen
from qcnn.model.history import epochs_left


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an experiment does, and how long that takes once everything is compiled.

    `memory_bytes` is what the chosen simulator holds, `process_bytes` what a process takes. `seconds` are those of all
    epochs, in so many `processes`, each on a machine like this one; `epoch_seconds_by_workers` of one where so many
    workers, each on such a machine, share it.
    """

    samples: int
    circuits: int
    readouts: int
    simulator: str
    memory_bytes: float
    process_bytes: float
    processes: int
    epoch_seconds: float
    seconds: float
    epoch_seconds_by_workers: Mapping[int, float]


@explained("qcnn.plan", "run")
def plan(experiment: Experiment) -> Plan:
    """Count what training an experiment takes; the first plan measures this machine, for some seconds.

    Raises:
        ArtifactError: a file of samples cannot be read.
        ConfigError: the experiment cannot run.

    >>> import qcnn
    >>> plan = qcnn.plan(qcnn.Experiment(qubits=4, rounds=10, epochs=2))
    >>> plan.samples, plan.readouts, plan.simulator
    (40, 2, 'statevector')
    """
    # These load cirq.
    from qcnn.planning import machine_cache
    from qcnn.planning.plan import count, predict, process_bytes

    config = checked(experiment).config
    if config.is_open:
        config = data.completed(config, data.generate(config))
    counts = count(config)
    kept = machine_cache.load_or_measure()
    predicted = predict(config, counts, kept.machine)
    return Plan(
        samples=counts.samples,
        circuits=counts.circuits,
        readouts=counts.readouts,
        simulator=counts.chosen.simulator,
        memory_bytes=counts.chosen.cost.memory,
        process_bytes=process_bytes(counts.chosen.cost.memory),
        processes=sum(config.replicas.values()),
        epoch_seconds=predicted.chosen,
        seconds=predicted.chosen * epochs_left(config),
        epoch_seconds_by_workers=frozen(predicted.by_workers),
    )
