"""Every simulator by the experiment's word for it, what it can run and costs, and which one `auto` chooses.

Read with the experiment's own description, so that this loads neither NumPy, cirq nor TensorFlow.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import TYPE_CHECKING, Protocol, cast

from qcnn import extras, operating_system
from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.errors import ConfigError
from qcnn.simulators.costs import density, lightcone, statevector, tfq
from qcnn.simulators.costs.cost import NOMINAL, StepCost, format_bytes
from qcnn.simulators.interface import Declaration, Simulator, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.gates import CircuitIR


class CostModule(Protocol):
    """What a simulator's module in `costs` offers, of networks that its declaration allows."""

    DECLARATION: Declaration

    def estimate(self, network: CircuitIR, limits: SimulatorLimits, /) -> StepCost:
        """Return the cost of a training step, counted before anything runs; infinite memory where it is impossible."""

    def check(self, network: CircuitIR, limits: SimulatorLimits, /) -> None:
        """Refuse what cannot be run.

        Raises:
            ConfigError: it cannot run the circuit, or not in that memory.
        """


class SimulatorModule(Protocol):
    """What the module that computes offers."""

    def create(self, network: CircuitIR, limits: SimulatorLimits, /) -> Simulator:
        """Create the simulator of a network that has been checked."""


# In the order in which their estimates are shown; of equally fast ones the first is taken. A new one is a module in
# `costs`, a module of its name beside this one, and a line here.
SIMULATORS: dict[str, CostModule] = {
    "lightcone": lightcone,
    "statevector": statevector,
    "tfq": tfq,
    "density": density,
}

# Up to so many qubits noise is computed.
NOISE_MAX_QUBITS = max(
    each.DECLARATION.most_qubits or MAX_QUBITS for each in SIMULATORS.values() if each.DECLARATION.noise
)
# Of a training step's time, evaluating the readouts alone.
_FORWARD = 0.3


def of_own_operations() -> tuple[str, ...]:
    """Return the simulators that consist of TensorFlow's own operations."""
    return tuple(name for name, each in SIMULATORS.items() if each.DECLARATION.own_operations)


def described() -> str:
    """Say how many qubits simulators take, and which knows noise."""
    noisy = _knowing_noise()
    limits: list[str] = []
    for name, each in SIMULATORS.items():
        if most := each.DECLARATION.most_qubits:
            unit = "" if limits else " qubits"
            limits.append(f"{most}{unit} with {name}{', which alone knows noise' if noisy == [name] else ''}")
    return f"At most {', '.join(limits)}."


def refusal(simulator: str, qubits: int, *, noise: bool, shifts: bool, states: str = "") -> str:
    """Say why a simulator cannot run what is asked of it; empty if it can, as what `auto` chooses does.

    `states` says where samples are states, if they are.
    """
    if simulator == "auto":
        return ""
    declared = SIMULATORS[simulator].DECLARATION
    if declared.most_qubits and qubits > declared.most_qubits:
        return (
            f"qubits: must be at most {declared.most_qubits} with simulator {simulator}, which holds {declared.holds}. "
            f"Given: {qubits}"
        )
    if shifts and not declared.shifts:
        return (
            f"gradient: must be adjoint with simulator {simulator}, whose circuits are not shifted. "
            "Given: parameter_shift"
        )
    if noise and not declared.noise:
        able = " or ".join(["auto", *_knowing_noise()])
        return f"simulator: must be {able} with noise, which the others do not know. Given: {simulator}"
    if states and not declared.states:
        able = ", ".join(name for name, each in SIMULATORS.items() if each.DECLARATION.states)
        return f"simulator: must be {able} or auto {states}. Given: {simulator}"
    return ""


def unpublished(simulator: str) -> str:
    """Say why the library of a simulator cannot be installed on this machine; empty if it can."""
    library = SIMULATORS[simulator].DECLARATION.library if simulator != "auto" else ""
    if not library or not (published := extras.unpublished(library)):
        return ""
    return f"simulator: {simulator} needs {published}. Given: {simulator} on {operating_system.name()}"


def check_published(simulator: str) -> None:
    """Refuse a simulator whose library cannot be installed on this machine.

    Raises:
        ConfigError: one line that names the machine.
    """
    if reason := unpublished(simulator):
        raise ConfigError(reason)


def estimate(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return what a training step would cost a simulator; infinite memory where it is impossible."""
    if _reason(simulator, network, limits):
        return StepCost(memory=math.inf)
    cost = SIMULATORS[simulator].estimate(network, limits)
    return cost * (_FORWARD * network.evaluations) if network.evaluations else cost


def check(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> None:
    """Refuse what a simulator cannot run.

    Raises:
        ConfigError: it cannot run the circuit, or not in that memory.
    """
    if reason := _reason(simulator, network, limits):
        raise ConfigError(reason)
    SIMULATORS[simulator].check(network, limits)


def create(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> Simulator:
    """Create a simulator.

    Raises:
        ConfigError: as `check`.
    """
    check(simulator, network, limits)
    return load(simulator).create(network, limits)


def load(simulator: str) -> SimulatorModule:
    """Return the module that computes, which loads TensorFlow."""
    return cast(SimulatorModule, importlib.import_module(f"qcnn.simulators.{simulator}"))


def _knowing_noise() -> list[str]:
    return [name for name, each in SIMULATORS.items() if each.DECLARATION.noise]


def _reason(simulator: str, network: CircuitIR, limits: SimulatorLimits) -> str:
    """Say why a simulator runs no such networks here; empty if it does."""
    if limits.own_operations and not SIMULATORS[simulator].DECLARATION.own_operations:
        able = " or ".join(of_own_operations())
        return f"simulator: must be {able} where TensorFlow's own operations alone are run. Given: {simulator}"
    return unpublished(simulator) or refusal(
        simulator,
        network.qubits,
        noise=bool(network.noise),
        shifts=bool(network.evaluations),
        states="where samples are states" if network.preparation.kind == "state" else "",
    )


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training step would cost a simulator, and whether it fits."""

    simulator: str
    cost: StepCost
    fits: bool


def estimates(network: CircuitIR, limits: SimulatorLimits) -> tuple[Estimate, ...]:
    """Return what a training step would cost each simulator."""
    costs = {name: estimate(name, network, limits) for name in SIMULATORS}
    return tuple(Estimate(name, cost, cost.memory <= limits.memory) for name, cost in costs.items())


def cheapest(every: tuple[Estimate, ...], network: CircuitIR, limits: SimulatorLimits) -> Estimate:
    """Return the estimate of the fastest that fits.

    Raises:
        ConfigError: none fits.
    """
    fitting = [estimate for estimate in every if estimate.fits]
    if not fitting:
        least = min(every, key=lambda estimate: estimate.cost.memory)
        raise ConfigError(
            f"qubits: no simulator can run this circuit in {format_bytes(limits.memory)} (simulator_memory_gib); "
            f"{least.simulator} needs the least, {format_bytes(least.cost.memory)}. Given: {network.qubits}"
        )
    return min(fitting, key=lambda estimate: NOMINAL.seconds(estimate.cost))
