"""Readouts: Z on a qubit, or real sums of Pauli strings, with their text such as `Z0*Z1, 0.5*X2 - Y3`."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import cirq

from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.errors import ConfigError, format_value

# Z on a qubit, given by the qubit, or the sum of different Pauli strings, in the order of `_sort_key`. No
# cirq.PauliSum, whose order is not the same in all processes.
Readout: TypeAlias = cirq.Qid | tuple[cirq.PauliString[cirq.Qid], ...]

# Maximum number of readouts of a text, and of terms of a readout.
_MAX_READOUTS, _MAX_TERMS = 1024, 1024
_PAULIS: Mapping[str, cirq.Pauli] = {"X": cirq.X, "Y": cirq.Y, "Z": cirq.Z}
_TERM = re.compile(r"\s*([+-]?)\s*((?:\d[eE][+-]|[\w.])+(?:\s*\*\s*(?:\d[eE][+-]|[\w.])+)*)\s*", re.ASCII)
_FACTOR = re.compile(r"([XYZ])(\d{1,9})", re.ASCII)


def as_readout(value: object) -> Readout:
    """Return a readout: a qubit as it is, else the sum of one or several Pauli strings.

    Args:
        value: Qubit, cirq.PauliString, cirq.PauliSum or list of cirq.PauliString.

    Raises:
        ConfigError: If it is something else, or its coefficients are not finite real numbers, or it is constant.
    """
    if isinstance(value, cirq.Qid):
        return value
    strings: list[object] = list(value) if isinstance(value, list | tuple | cirq.PauliSum) else [value]
    total: dict[tuple[tuple[cirq.Qid, str], ...], complex] = {}
    for string in strings:
        if not isinstance(string, cirq.PauliString):
            raise ConfigError(
                "model: readouts must be qubits, or cirq.PauliString or cirq.PauliSum of qubits. "
                f"Given: {format_value(value)}"
            )
        key = tuple((qubit, str(string[qubit])) for qubit in sorted(string.qubits))
        total[key] = total.get(key, 0) + complex(string.coefficient)
    if any(factor.imag or not math.isfinite(factor.real) for factor in total.values()):
        raise ConfigError(f"model: a readout must have finite real coefficients. Given: {format_value(value)}")
    terms = [_string(total[key].real, key) for key in sorted(total, key=_sort_key) if total[key]]
    if not any(string.qubits for string in terms):
        raise ConfigError(f"model: a readout must not be constant. Given: {format_value(value)}")
    if len(terms) == 1 and terms[0].coefficient == 1 and list(terms[0].values()) == [cirq.Z]:
        return terms[0].qubits[0]
    return tuple(terms)


def _sort_key(paulis: Sequence[tuple[cirq.Qid, str]]) -> tuple[bool, Sequence[tuple[cirq.Qid, str]]]:
    """Return the sort key of a term: by its qubits and operators, and constants last."""
    return not paulis, paulis


def terms_of(readout: Readout) -> list[tuple[float, dict[cirq.Qid, str]]]:
    """Return the terms of a readout: each a coefficient, and X, Y or Z by qubit, in ascending order of the qubits."""
    if isinstance(readout, cirq.Qid):
        return [(1.0, {readout: "Z"})]
    return [(float(term.coefficient.real), {qubit: str(pauli) for qubit, pauli in term.items()}) for term in readout]


def qubits_of(readout: Readout) -> tuple[cirq.Qid, ...]:
    """Return the qubits of a readout, in ascending order."""
    return tuple(sorted({qubit for _, paulis in terms_of(readout) for qubit in paulis}))


def moved(readout: Readout, places: Mapping[cirq.Qid, cirq.Qid]) -> Readout:
    """Return a readout on other qubits."""
    if isinstance(readout, cirq.Qid):
        return places[readout]
    return as_readout(
        [_string(factor, [(places[q], p) for q, p in each.items()]) for factor, each in terms_of(readout)]
    )


def bound(readout: Readout) -> float:
    """Return the sum of the absolute coefficients of a readout, which its expectation value cannot exceed."""
    return sum(abs(factor) for factor, _ in terms_of(readout))


def as_pauli_sum(readout: Readout) -> cirq.PauliSum:
    """Return a readout as an observable of Cirq."""
    return cirq.PauliSum.from_pauli_strings([cirq.Z(readout)] if isinstance(readout, cirq.Qid) else list(readout))


def text_of(readout: Readout, position: Mapping[cirq.Qid, int]) -> str:
    """Return the text of a readout, which `parse` reads.

    Args:
        readout: Readout.
        position: Numbers of the qubits.
    """
    text = ""
    for factor, paulis in terms_of(readout):
        names = [f"{pauli}{position[qubit]}" for qubit, pauli in paulis.items()]
        number = [] if abs(factor) == 1 and names else [f"{abs(factor):.12g}"]
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += sign + "*".join([*number, *names])
    return text


def parse(text: str) -> tuple[Readout, ...]:
    """Return the readouts of a text, on the qubits of the ring.

    A text is a list of readouts, separated by commas. A readout is a sum of terms, and a term a product of a number and
    of X, Y or Z with the number of a qubit.

    Raises:
        ConfigError: If the text is invalid.

    >>> terms_of(parse("Z0*Z1, 0.5*X2 - Y3")[1])
    [(0.5, {cirq.GridQubit(0, 2): 'X'}), (-1.0, {cirq.GridQubit(0, 3): 'Y'})]
    """
    parts = text.split(",")
    if len(parts) > _MAX_READOUTS:
        raise ConfigError(f"observables: must be at most {_MAX_READOUTS} readouts. Given: {len(parts)}")
    return tuple(_parse_readout(part) for part in parts)


def _parse_readout(text: str) -> Readout:
    terms = list(_parse_terms(text))
    if len(terms) > _MAX_TERMS:
        raise ConfigError(f"observables: a readout must have at most {_MAX_TERMS} terms. Given: {len(terms)}")
    try:
        return as_readout(terms)
    except ConfigError as error:
        raise _syntax_error(text) from error


def _parse_terms(text: str) -> Iterator[cirq.PauliString[cirq.Qid]]:
    at = 0
    while at < len(text) or not at:
        found = _TERM.match(text, at)
        if not found or (at and not found[1]):
            raise _syntax_error(text)
        yield _parse_term(found[1], found[2], text)
        at = found.end()


def _parse_term(sign: str, product: str, text: str) -> cirq.PauliString[cirq.Qid]:
    factor = -1.0 if sign == "-" else 1.0
    paulis: dict[cirq.Qid, str] = {}
    for name in map(str.strip, product.split("*")):
        if found := _FACTOR.fullmatch(name):
            qubit = cirq.GridQubit(0, int(found[2]))
            if qubit.col >= MAX_QUBITS or qubit in paulis:
                raise _syntax_error(text)
            paulis[qubit] = found[1]
            continue
        try:
            factor *= float(name)
        except ValueError:
            raise _syntax_error(text) from None
    return _string(factor, sorted(paulis.items()))


def _string(factor: float, paulis: Iterable[tuple[cirq.Qid, str]]) -> cirq.PauliString[cirq.Qid]:
    return cirq.PauliString({qubit: _PAULIS[pauli] for qubit, pauli in paulis}, coefficient=factor)


def _syntax_error(text: str) -> ConfigError:
    return ConfigError(
        "observables: must be real sums of products of X, Y or Z on different qubits, separated by commas, such as "
        f"Z0*Z1, 0.5*X2 - Y3. Given: {format_value(text.strip())}"
    )
