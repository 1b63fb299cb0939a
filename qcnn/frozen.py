"""Immutable mappings, sequences, arrays and objects."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np

_Array = TypeVar("_Array", bound="np.ndarray[Any, Any]")


class FrozenDict(dict[str, Any]):
    """Immutable dict. `dict(...)` and `copy()` return a mutable copy.

    It is a subclass of dict, so that json, copy, pickle and dataclasses.asdict accept it.

    >>> values = FrozenDict(a=1)
    >>> values["a"] = 2
    Traceback (most recent call last):
    TypeError: this mapping does not change; change a copy of it, dict(...)
    """

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping does not change; change a copy of it, dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type["FrozenDict"], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def freeze(value: Any) -> Any:
    """Return a value with its mappings, lists and arrays replaced by immutable ones, at all levels."""
    if isinstance(value, Mapping):
        return FrozenDict({name: freeze(each) for name, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(freeze, value))
    return frozen_array(value) if isinstance(value, np.ndarray) else value


def frozen_array(array: _Array) -> _Array:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


class Frozen:
    """Base class of immutable objects. `__init__` sets attributes with `vars(self)`."""

    # Alternative, for the message.
    _instead = "make another"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse(name)

    def __delattr__(self, name: str) -> NoReturn:
        self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: a qcnn.{type(self).__name__} does not change; {self._instead}")
