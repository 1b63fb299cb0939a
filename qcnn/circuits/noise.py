"""Noise of gates and measurements: parser of the experiment field `noise`, and channels by gate."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

CHANNELS = ("depolarizing", "amplitude_damping", "phase_damping")
CLASSES = ("one", "two")
READOUT = "readout"
ALLOWED = (
    f"probabilities from 0 to 1 for {', '.join(CHANNELS)} (suffix .one: gates on one qubit only, suffix .two: gates "
    f"on more qubits only) and {READOUT}, such as "
    f"depolarizing.one=0.001,depolarizing.two=0.01,readout=0.02, or empty for none"
)

_NUMBER = re.compile(r"[0-9.]{1,30}(?:[eE][+-]?[0-9]{1,3})?")


@dataclasses.dataclass(frozen=True)
class GateNoise:
    """Probabilities of the channels that act on the qubits of a gate after it, in this order.

    `depolarizing` acts jointly on all qubits, as cirq.depolarize(p, n_qubits=k). Then `amplitude_damping` and
    `phase_damping` act on each qubit, as cirq.amplitude_damp and cirq.phase_damp.
    """

    depolarizing: float = 0.0
    amplitude_damping: float = 0.0
    phase_damping: float = 0.0


@dataclasses.dataclass(frozen=True)
class Noise:
    """Noise after gates on one qubit (`one`) and on more (`two`), and bit-flip probability of a readout.

    >>> noise = parse("readout=0.02,depolarizing=1e-3")
    >>> noise.two.depolarizing, noise.readout
    (0.001, 0.02)
    >>> noise.text
    'depolarizing.one=0.001,depolarizing.two=0.001,readout=0.02'
    """

    one: GateNoise = GateNoise()
    two: GateNoise = GateNoise()
    readout: float = 0.0

    def __bool__(self) -> bool:
        """Return whether any probability is greater than 0."""
        return self != NOISELESS

    def channel(self, qubits: int) -> GateNoise | None:
        """Return the noise after a gate on the given number of qubits, or None if there is none."""
        noise = self.one if qubits == 1 else self.two
        return noise if noise != GateNoise() else None

    @property
    def visibility(self) -> float:
        """Factor of Z on a readout. A bit flip of probability p changes Z to (1 - 2p) Z."""
        return 1 - 2 * self.readout

    @property
    def text(self) -> str:
        """Normalized value of field `noise`."""
        gates = {f"{channel}.{name}": getattr(getattr(self, name), channel) for channel in CHANNELS for name in CLASSES}
        return ",".join(f"{name}={value!r}" for name, value in {**gates, READOUT: self.readout}.items() if value)


NOISELESS = Noise()


def parse(text: str) -> Noise:
    """Parse the value of field `noise`.

    Raises:
        ValueError: If it does not have the form in `ALLOWED`.
    """
    return _build_noise(_parse_parts(text)) if text else NOISELESS


def from_mapping(values: Mapping[object, object]) -> Noise:
    """Parse the mapping form of field `noise`: one probability per channel, or one per class of gates.

    Raises:
        ValueError: If it does not have the form in `ALLOWED`.

    >>> from_mapping({"depolarizing": {"one": 0.001, "two": 0.01}}).two.depolarizing
    0.01
    """
    return _build_noise(_flatten(values))


def _parse_parts(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        if not _NUMBER.fullmatch(value.strip()):
            raise ValueError("no probability")
        yield name.strip(), float(value)


def _flatten(values: Mapping[object, object]) -> Iterator[tuple[str, int | float]]:
    for name, value in values.items():
        inner = {f"{name}.{of_class}": each for of_class, each in value.items()} if isinstance(value, Mapping) else None
        for each, number in (inner or {str(name): value}).items():
            if not isinstance(number, int | float) or isinstance(number, bool):
                raise ValueError("no probability")
            yield each, number


def _build_noise(named: Iterable[tuple[str, int | float]]) -> Noise:
    found: dict[str, float] = {}
    for name, value in named:
        # Checked before the conversion, because float() fails for large integers.
        if not 0 <= value <= 1:
            raise ValueError("no probability")
        for each in _expand_name(name):
            if each in found:
                raise ValueError("twice the same")
            found[each] = float(value)
    of_class = {
        name: GateNoise(**{channel: found.get(f"{channel}.{name}", 0.0) for channel in CHANNELS}) for name in CLASSES
    }
    return Noise(**of_class, readout=found.get(READOUT, 0.0))


def _expand_name(name: str) -> list[str]:
    """Return the names with class for a channel. A name without class stands for both classes."""
    channel, point, of_class = name.partition(".")
    if name == READOUT:
        return [name]
    if channel not in CHANNELS or (point and of_class not in CLASSES):
        raise ValueError("unknown channel")
    return [name] if point else [f"{channel}.{each}" for each in CLASSES]
