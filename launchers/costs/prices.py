"""The prices of machines: a dated file, which a user may replace."""

import datetime
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from trainer.errors import ConfigError, given

_OWN = Path(__file__).with_name("prices.yaml")


def _written(value: object) -> object:
    """In YAML, a day is a date; JSON and messages have it as text."""
    return value.isoformat() if isinstance(value, datetime.date) else value


_PRICE = "dollars an hour, above 0 and at most 1000000"
Price = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class MachineType(BaseModel):
    """A machine with its vCPUs, its memory in GiB, the accelerators that it always has, and its prices an hour."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: Annotated[int, Field(ge=1, le=100_000, strict=True, description="an integer, 1 to 100000")]
    memory: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, description="GiB, above 0 and at most 1000000")]
    price: Annotated[Price, Field(description=_PRICE)]
    spot: Annotated[Price | None, Field(description=_PRICE)] = None
    accelerator: Annotated[str, Field(description="text")] = ""
    gpus: Annotated[int, Field(ge=0, le=1000, strict=True, description="an integer, 0 to 1000")] = 0


class Prices(BaseModel):
    """The prices of one region on one day; those of Vertex AI are so many times the ones of Compute Engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[str, BeforeValidator(_written), Field(pattern=r"^\d{4}-\d\d-\d\d$", description="a day")]
    region: Annotated[str, Field(description="text")]
    source: Annotated[str, Field(description="text")]
    vertex_factor: Annotated[float, Field(gt=0, le=100, description="a number above 0 and at most 100")] = 1.0
    machines: Annotated[dict[str, MachineType], Field(min_length=1, description="a mapping of names to machines")]


@functools.cache
def own_prices() -> Prices:
    """Return the prices that come with this package.

    >>> own_prices().machines["n1-standard-4"].cpus
    4
    """
    return prices_from(YAML(typ="safe").load(_OWN))


def prices_from(values: Mapping[str, Any]) -> Prices:
    """Validate the content of a file of prices.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        return Prices.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    # Where the name of a machine is no text, pydantic says so by a part of its own.
    path = tuple(str(part) for part in first["loc"] if part != "[key]")
    name = ".".join(("prices", *path))
    # A machine's fields stand below its name.
    fields = MachineType.model_fields if len(path) > 2 else Prices.model_fields
    if first["type"] == "missing":
        raise ConfigError(f"{name}: must be given. Given: none")
    if first["type"] == "extra_forbidden":
        raise ConfigError(f"{name}: unknown key; the keys are {', '.join(fields)}. Given: {given(first['input'])}")
    allowed = "a machine with its cpus, memory and price" if len(path) == 2 else fields[path[-1]].description
    raise ConfigError(f"{name}: must be {allowed}. Given: {given(first['input'])}")
