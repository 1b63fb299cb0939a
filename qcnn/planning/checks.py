"""Checks of experiments before data are generated: one function for all commands, steps and the Python interface.

What depends on a machine (its devices, memory, libraries and files) is checked for the machine that trains only.
"""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from qcnn import data
from qcnn.circuits.formats.embedded import MODELS, is_function
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import requirements
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES
from qcnn.model import checkpoints
from qcnn.planning.memory import minimum_bytes
from qcnn.planning.parallel_trials import trials_at_once
from qcnn.process import environment, operating_system
from qcnn.process.operating_system import Memory
from qcnn.simulators import kernels, registry
from qcnn.simulators.costs.cost import format_bytes

# Receives one line of text for the user.
Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Place:
    """Location of training, relative to the process that checks the experiments.

    Attributes:
        is_local: Whether this machine trains them.
        has_inputs: Whether this process reads their data files.
        has_modules: Whether modules with custom circuits are those of this process.
        shares_machine: Whether all processes run on this machine, and not each on a machine like it.
        has_gpus: Whether the training processes of a remote target have GPUs.
    """

    is_local: bool = False
    has_inputs: bool = False
    has_modules: bool = False
    shares_machine: bool = False
    has_gpus: bool = False


LOCAL = Place(is_local=True, has_inputs=True, has_modules=True, shares_machine=True)
# An estimate for machines like this one, and for a remote target.
PLANNED = Place(is_local=True, has_inputs=True, has_modules=True)
PLANNED_REMOTELY = Place(has_inputs=True, has_modules=True)
# A job before its submission, and a step of a pipeline, which runs in the image of the training processes.
SUBMITTED = Place()
STEP = Place(has_modules=True)


def on_gpus(place: Place, gpus: int) -> Place:
    """Return a place whose training processes have a number of GPUs each."""
    return dataclasses.replace(place, has_gpus=gpus > 0)


def check_experiments(experiments: Sequence[ExperimentConfig], place: Place, report: Report) -> list[ExperimentConfig]:
    """Check experiments, and return them with the metadata of their data files if these are read here.

    Args:
        experiments: Experiments to train.
        place: Where they are trained.
        report: Receives each line about missing kernels, cores or memory once.

    Raises:
        ArtifactError: If a data file cannot be read, or `continue_from` has no checkpoint of the experiment.
        ConfigError: If an experiment cannot be trained.
    """
    return _check(experiments, place, report)[0]


def check_trials(
    trials: Sequence[ExperimentConfig], parallelism: int, report: Report
) -> tuple[list[ExperimentConfig], int]:
    """Check the trials of a study on this machine.

    Args:
        trials: Experiments of the trials.
        parallelism: Maximum number of trials at the same time.
        report: Receives each line about missing kernels, cores or memory once, also if fewer trials are trained.

    Returns:
        The trials with the metadata of their data files, and the number of trials that are trained at the same time.

    Raises:
        ArtifactError: If a data file cannot be read, or `continue_from` has no checkpoint of the experiment.
        ConfigError: If a trial cannot be trained.
    """
    complete, states = _check(trials, LOCAL, report)
    at_once, line = trials_at_once(
        complete,
        states,
        parallelism,
        cores=operating_system.cores(),
        memory=operating_system.memory().available,
        gpus=operating_system.gpus() if parallelism > 1 else 0,
    )
    if line:
        report(line)
    return complete, at_once


def _check(
    experiments: Sequence[ExperimentConfig], place: Place, report: Report
) -> tuple[list[ExperimentConfig], float]:
    """Check experiments, see `check_experiments`, and also return the largest memory of a process' states in bytes."""
    reported = {""}

    def report_once(line: str) -> None:
        if line not in reported:
            reported.add(line)
            report(line)

    if place.is_local:
        for experiment in experiments:
            _check_machine(experiment)
            report_once(missing_kernels(experiment))
            report_once(missing_cores(experiment.workers, operating_system.cores()))
            # Rejects too many processes before their circuit is read, which takes seconds.
            _memory_line(experiment, 0.0, place)
    # The step that creates the dataset of a local run logs the warnings about its file.
    warn = _ignore if place.shares_machine else data.warn_once
    complete = data.resolve_files(experiments, warn) if place.has_inputs else list(experiments)
    # Estimates by the values on which they depend, because the trials of a study share most circuits.
    states: dict[object, float] = {}
    for experiment in complete:
        if place.is_local:
            _check_checkpoint(experiment)
        if not _has_circuit(experiment, place):
            continue
        key = _estimate_key(experiment)
        if key not in states:
            states[key] = _check_simulator(experiment, place)
        if place.is_local:
            report_once(_memory_line(experiment, states[key], place))
    return complete, max(states.values(), default=0.0)


def _ignore(line: str) -> None:
    """Report nothing."""


def _check_machine(config: ExperimentConfig) -> None:
    """Check the libraries, devices and folders that an experiment requires of this machine."""
    registry.check_installed(config.simulator)
    if fields := config.gpu_fields:
        requirements.check_gpus(fields, operating_system.gpus())
    if STRATEGIES[config.strategy].tpu and not environment.has_tpu(os.environ):
        variables = " or ".join(environment.TPU_VARIABLES)
        raise ConfigError(f"strategy: no TPU was found ({variables} must name one). Given: {config.strategy}")
    source = config.options.continue_from
    if source and not checkpoints.exist_in(source):
        raise ArtifactError(f"continue_from: the folder has no checkpoint. Given: {source}")


def _check_checkpoint(config: ExperimentConfig) -> None:
    """Check that the local folder of `continue_from` has a checkpoint of the experiment.

    The process that trains reads checkpoints in a bucket.
    """
    folder = Path(config.options.continue_from, checkpoints.FOLDER)
    if config.options.continue_from and (checkpoint := checkpoints.load_latest(folder)):
        checkpoints.check_same_experiment(checkpoint, config)


def _has_circuit(config: ExperimentConfig, place: Place) -> bool:
    """Return whether this process can build the circuit, and has the circuit of the training processes."""
    if is_function(config.model) and not place.has_modules:
        return False
    # Jobs can be submitted without the libraries of training.
    return place.is_local or importlib.util.find_spec("cirq") is not None


def _estimate_key(config: ExperimentConfig) -> object:
    """Return the values on which the network, its head, its simulator and the memory of states depend."""
    circuit = (config.model, config.qubits, config.preparation, config.noise_in_training, config.options.gradient)
    return circuit, config.options.head, config.options.classes, config.simulator, config.limits


def _check_simulator(config: ExperimentConfig, place: Place) -> float:
    """Check that a simulator can train an experiment, and return the memory of a process' states in bytes."""
    # Importing cirq takes a second.
    from qcnn.planning.plan import network_of, with_simulator_on_gpus
    from qcnn.simulators.structure.gates import check_trainable

    if not config.batch_size:
        # A data file that is read later determines the batch, which has at least one sample for each replica.
        config = config.model_copy(update={"batch_size": config.num_replicas_in_sync})
    if place.has_gpus:
        config = with_simulator_on_gpus(config)
    network, limits = network_of(config), dataclasses.replace(config.limits, is_remote=not place.is_local)
    check_trainable(config.model, network)
    if config.simulator == "auto":
        return registry.cheapest(registry.estimates(network, limits), network, limits).cost.memory
    if registry.declaration(config.simulator).library:
        _check_with_library(config, place)
    else:
        registry.check(config.simulator, network, limits)
    return registry.estimate(config.simulator, network, limits).memory


def _check_with_library(config: ExperimentConfig, place: Place) -> None:
    """Check in a separate process that the library of a simulator supports a circuit.

    The library loads TensorFlow, which takes seconds and does not belong in the process of a user. Every simulator
    supports the built-in circuits.
    """
    if config.model in MODELS:
        return
    command = [sys.executable, "-m", "qcnn.planning.library_check", "local" if place.is_local else "remote"]
    done = subprocess.run(command, input=config.to_json(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ConfigError(done.stdout.strip() or f"simulator: its check failed. Given: {config.simulator}")


def _memory_line(config: ExperimentConfig, states: float, place: Place) -> str:
    """Return a line if this machine lacks memory for an experiment, or an empty string.

    Args:
        config: Experiment.
        states: Memory of the states of a worker, in bytes.
        place: Where the experiment is trained.

    Raises:
        ConfigError: If the processes cannot have enough memory.
    """
    processes, memory = sum(config.replicas.values()), operating_system.memory()
    are_forked = operating_system.has_fork_server()
    needed = minimum_bytes(processes, config.workers * states, are_forked=are_forked)
    if states and needed > memory.available and operating_system.gpus():
        # The states are in the memory of the GPU.
        needed = minimum_bytes(processes, 0.0, are_forked=are_forked)
    line = missing_memory(processes, needed, memory)
    if place.shares_machine and needed > memory.total:
        given = config.workers if processes > 1 else config.options.simulator_memory_gib
        raise ConfigError(f"{line}. Given: {given}")
    return line


def missing_kernels(config: ExperimentConfig) -> str:
    """Return a line about kernels that `auto` cannot select on this machine, or an empty string.

    Simulators with kernels exist on Linux only.
    """
    if config.simulator != "auto" or config.limits.builtin_operations or sys.platform != "linux":
        return ""
    names = [name for name, each in registry.SIMULATORS.items() if each.DECLARATION.compiled_kernels]
    reason = kernels.missing_reason()
    return f"{', '.join(names)}: {reason}; auto selects another simulator" if reason else ""


def missing_cores(workers: int, cores: int) -> str:
    """Return a line if workers share cores, or an empty string."""
    if workers <= cores:
        return ""
    shared = f"{cores} {'core' if cores == 1 else 'cores'}"
    return f"workers: {workers} workers share {shared}; more workers than cores do not shorten training"


def missing_memory(processes: int, needed: float, memory: Memory) -> str:
    """Return a line if processes need more memory than there is, or an empty string.

    Args:
        processes: Number of processes.
        needed: Lower bound of their memory, in bytes.
        memory: Memory of the machine.
    """
    if needed <= memory.available:
        return ""
    owner = "the limit of this container is" if memory.is_limited else "this machine has"
    total, available = format_bytes(memory.total), format_bytes(memory.available)
    has = f"{owner} {total}" if needed > memory.total else f"{available} of {total} are available"
    field = "workers" if processes > 1 else "simulator_memory_gib"
    return (
        f"{field}: {processes} {'process needs' if processes == 1 else 'processes need'} at least "
        f"{format_bytes(needed)} of memory; {has}"
    )
