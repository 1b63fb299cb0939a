"""Registry of simulators: requirements, cost estimates and the automatic selection.

Imported by the experiment schema, and therefore independent of NumPy, cirq and TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import math
from typing import TYPE_CHECKING, Protocol, cast

from qcnn import plugins
from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.errors import ConfigError
from qcnn.process import extras, operating_system
from qcnn.simulators import kernels
from qcnn.simulators.costs import density, lightcone, statevector, statevector_cpu, tfq
from qcnn.simulators.costs.cost import NOMINAL, StepCost, format_bytes
from qcnn.simulators.interface import Declaration, Simulator, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.network import CircuitIR


class CostModule(Protocol):
    """Interface of a module in `costs`, for networks that its declaration allows."""

    DECLARATION: Declaration

    def estimate(self, network: CircuitIR, limits: SimulatorLimits, /) -> StepCost:
        """Return the estimated cost of a training step, with infinite memory if it cannot run."""

    def check(self, network: CircuitIR, limits: SimulatorLimits, /) -> None:
        """Check that the simulator can run a network.

        Raises:
            ConfigError: If the simulator cannot run the circuit, or needs more memory than the limit.
        """


class SimulatorModule(Protocol):
    """Interface of a simulator's TensorFlow module, which its declaration names."""

    def create(self, network: CircuitIR, limits: SimulatorLimits, /) -> Simulator:
        """Create the simulator of a checked network."""


# Estimates are shown in this order, and the first of equally fast simulators is selected. `auto` never selects a
# plug-in, and a plug-in cannot replace one of these.
SIMULATORS: dict[str, CostModule] = {
    "lightcone": lightcone,
    "statevector": statevector,
    "statevector_cpu": statevector_cpu,
    "tfq": tfq,
    "density": density,
}

# Maximum number of qubits with exact noise.
NOISE_MAX_QUBITS = max(
    each.DECLARATION.max_qubits or MAX_QUBITS for each in SIMULATORS.values() if each.DECLARATION.noise
)
# Fraction of a training step's time that evaluates the readouts, without the gradient.
_FORWARD = 0.3


def costs_of(simulator: str) -> CostModule:
    """Return the cost module of a simulator of this package, or of a plug-in.

    Raises:
        ConfigError: If there is no simulator of this name, or its plug-in cannot be imported.
    """
    if simulator in SIMULATORS:
        return SIMULATORS[simulator]
    own = f"one of {', '.join(['auto', *SIMULATORS])}"
    return cast(CostModule, plugins.load("simulator", plugins.SIMULATORS, simulator, own))


def declaration(simulator: str) -> Declaration:
    """Return the declaration of a simulator.

    Raises:
        ConfigError: If there is no simulator of this name, or its plug-in cannot be imported.
    """
    return costs_of(simulator).DECLARATION


def builtin_simulators() -> tuple[str, ...]:
    """Return the names of the simulators that use built-in TensorFlow operations only."""
    return tuple(name for name, each in SIMULATORS.items() if each.DECLARATION.builtin_operations)


def describe_limits() -> str:
    """Describe the qubit limits and the noise support of the simulators."""
    noisy = _noise_simulators()
    limits: list[str] = []
    for name, each in SIMULATORS.items():
        if maximum := each.DECLARATION.max_qubits:
            unit = "" if limits else " qubits"
            limits.append(f"{maximum}{unit} with {name}{', the only one with noise' if noisy == [name] else ''}")
    return f"At most {', '.join(limits)}."


def unsupported_reason(
    simulator: str,
    qubits: int,
    *,
    noise: bool,
    shifts: bool,
    states: str = "",
    strings: bool = False,
    inputs: bool = False,
) -> str:
    """Return why a simulator does not support an experiment, or an empty string if it does.

    Args:
        simulator: Name of the simulator. `auto` supports every experiment.
        qubits: Number of qubits.
        noise: Whether the circuit has noise.
        shifts: Whether gradients use parameter shift.
        states: Condition under which samples are states, for the message. Empty if samples are not states.
        strings: Whether a readout has another Pauli string than Z on a qubit.
        inputs: Whether gates depend on inputs.
    """
    if simulator == "auto":
        return ""
    declared = declaration(simulator)
    if declared.max_qubits and qubits > declared.max_qubits:
        return (
            f"qubits: must be at most {declared.max_qubits} with simulator {simulator}, which stores {declared.holds}. "
            f"Given: {qubits}"
        )
    if shifts and not declared.shifts:
        return (
            f"gradient: must be adjoint with simulator {simulator}, which cannot shift single gates. "
            "Given: parameter_shift"
        )
    if noise and not declared.noise:
        able = " or ".join(["auto", *_noise_simulators()])
        return f"simulator: must be {able} with noise, which the other simulators do not support. Given: {simulator}"
    if states and not declared.states:
        able = ", ".join(name for name, each in SIMULATORS.items() if each.DECLARATION.states)
        return f"simulator: must be {able} or auto {states}. Given: {simulator}"
    if strings and not declared.strings:
        able = ", ".join(name for name, each in SIMULATORS.items() if each.DECLARATION.strings)
        return f"simulator: must be {able} or auto with readouts other than Z on a qubit. Given: {simulator}"
    if inputs and not declared.inputs:
        able = ", ".join(name for name, each in SIMULATORS.items() if each.DECLARATION.inputs)
        return f"simulator: must be {able} or auto with a circuit that has inputs. Given: {simulator}"
    return ""


def check_installed(simulator: str) -> None:
    """Check that this machine has what a simulator needs: compiled kernels, or its library.

    Raises:
        ConfigError: If the kernels cannot run here, or the library is not installed or not published for this platform.
    """
    if reason := _missing_reason(simulator):
        raise ConfigError(reason)
    library = "" if simulator == "auto" else declaration(simulator).library
    if library and importlib.util.find_spec(library) is None:
        raise ConfigError(
            f"simulator: {simulator} needs {extras.LIBRARIES[library].title}, which make setup EXTRA={simulator} "
            f"installs into a separate environment, .venv-{simulator}. Given: {simulator}"
        )


def _missing_reason(simulator: str) -> str:
    """Return why a simulator cannot run on this machine, or an empty string if it can."""
    if simulator == "auto":
        return ""
    declared = declaration(simulator)
    if declared.compiled_kernels and (reason := kernels.missing_reason()):
        return f"simulator: {simulator} needs kernels, which cannot run here: {reason}. Given: {simulator}"
    if declared.library and (published := extras.platform_clause(declared.library)):
        return f"simulator: {simulator} needs {published}. Given: {simulator} on {operating_system.name()}"
    return ""


def estimate(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the estimated cost of a training step, with infinite memory if it cannot run.

    Args:
        simulator: Name of the simulator.
        network: Network to simulate.
        limits: Memory limit, batch size and number of replicas.
    """
    if _reason(simulator, network, limits):
        return StepCost(memory=math.inf)
    cost = costs_of(simulator).estimate(network, limits)
    return cost * (_FORWARD * network.evaluations) if network.evaluations else cost


def check(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that a simulator can run a network.

    Args:
        simulator: Name of the simulator.
        network: Network to simulate.
        limits: Memory limit, batch size and number of replicas.

    Raises:
        ConfigError: If the simulator cannot run the circuit, or needs more memory than the limit.
    """
    if reason := _reason(simulator, network, limits):
        raise ConfigError(reason)
    costs_of(simulator).check(network, limits)


def create(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> Simulator:
    """Create a simulator.

    Args:
        simulator: Name of the simulator.
        network: Network to simulate.
        limits: Memory limit, batch size and number of replicas.

    Raises:
        ConfigError: If the simulator cannot run the circuit, or needs more memory than the limit.
    """
    check(simulator, network, limits)
    return load(simulator).create(network, limits)


def load(simulator: str) -> SimulatorModule:
    """Import the TensorFlow module of a simulator.

    Raises:
        ConfigError: If there is no simulator of this name, or its plug-in cannot be imported.
    """
    is_own = simulator in SIMULATORS
    reported = contextlib.nullcontext() if is_own else plugins.import_errors("simulator", plugins.SIMULATORS, simulator)
    with reported:
        return cast(SimulatorModule, importlib.import_module(declaration(simulator).module))


def _noise_simulators() -> list[str]:
    return [name for name, each in SIMULATORS.items() if each.DECLARATION.noise]


def _reason(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> str:
    """Return why a simulator does not support a network, or an empty string if it does."""
    if limits.builtin_operations and not declaration(simulator).builtin_operations:
        able = " or ".join(builtin_simulators())
        return f"simulator: must be {able} where only built-in TensorFlow operations run. Given: {simulator}"
    missing = "" if limits.is_remote else _missing_reason(simulator)
    return missing or unsupported_reason(
        simulator,
        network.qubits,
        noise=bool(network.noise),
        shifts=bool(network.evaluations),
        states="where samples are states" if network.preparation.kind == "state" else "",
        strings=not all(string.is_single_z for string in network.strings),
        inputs=bool(network.inputs),
    )


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Estimated cost of a training step with a simulator, and whether it fits in memory."""

    simulator: str
    cost: StepCost
    fits: bool


def estimates(network: CircuitIR, limits: SimulatorLimits, simulator: str = "auto") -> tuple[Estimate, ...]:
    """Return the estimates of all simulators of this package, and of the given one.

    Args:
        network: Network to simulate.
        limits: Memory limit, batch size and number of replicas.
        simulator: Name of a simulator, which may be a plug-in, or `auto`.
    """
    names = dict.fromkeys([*SIMULATORS, *([] if simulator == "auto" else [simulator])])
    return tuple(estimate_of(name, network, limits) for name in names)


def estimate_of(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> Estimate:
    """Return the estimate of a simulator.

    Args:
        simulator: Name of the simulator, which may be a plug-in.
        network: Network to simulate.
        limits: Memory limit, batch size and number of replicas.
    """
    cost = estimate(simulator, network, limits)
    return Estimate(simulator, cost, cost.memory <= limits.memory)


def cheapest(every: tuple[Estimate, ...], network: CircuitIR, limits: SimulatorLimits) -> Estimate:
    """Return the estimate of the fastest simulator of this package that fits in memory.

    Args:
        every: Estimates of the simulators to compare.
        network: Network of the estimates.
        limits: Limits of the estimates.

    Raises:
        ConfigError: If no simulator fits in memory.
    """
    # With a library in a separate environment, workers could select different simulators.
    selectable = [name for name, each in SIMULATORS.items() if not each.DECLARATION.library]
    every = tuple(each for each in every if each.simulator in selectable)
    fitting = [estimate for estimate in every if estimate.fits]
    if not fitting:
        smallest = min(every, key=lambda estimate: estimate.cost.memory)
        raise ConfigError(
            f"qubits: no simulator can run this circuit in {format_bytes(limits.memory)} (simulator_memory_gib); "
            f"{smallest.simulator} needs the least, {format_bytes(smallest.cost.memory)}. Given: {network.qubits}"
        )
    return min(fitting, key=lambda estimate: NOMINAL.seconds(estimate.cost))
