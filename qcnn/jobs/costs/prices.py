"""The prices of machines: a dated file, which a user may replace."""

import datetime
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from qcnn.jobs.validation import refusal

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
        machines = (MachineType, "a machine with its cpus, memory and price")
        raise refusal(error, "prices", Prices, {"machines": machines}) from None
