"""The images with which Vertex AI serves a SavedModel.

Source: "Prebuilt containers for inference" (cloud.google.com/vertex-ai/docs/predictions/pre-built-containers), as of
November 2026; the newest of TensorFlow is 2.15. TensorFlow 2.15.1 loads what this project exports, and predicts the
same numbers as the one that has exported it (2.18.1).
"""

import dataclasses
import datetime


@dataclasses.dataclass(frozen=True)
class Container:
    """A prebuilt image: the end of its name, and the day after which Google may withdraw it."""

    name: str
    available_until: datetime.date


NEWEST = Container("prediction/tf2-cpu.2-15:latest", datetime.date(2027, 1, 14))
# Each continent has copies of its own.
_CONTINENTS = {"europe": "europe", "asia": "asia", "australia": "asia", "me": "asia"}


def image_in(location: str) -> str:
    """Return the image's name where it is nearest to a location."""
    continent = _CONTINENTS.get(location.partition("-")[0], "us")
    return f"{continent}-docker.pkg.dev/vertex-ai/{NEWEST.name}"


def warning(today: datetime.date) -> str:
    """Return what a user is told of the image on a day; empty where it is sure to be there."""
    if today <= NEWEST.available_until:
        return ""
    return (
        f"Google may have withdrawn {NEWEST.name} after {NEWEST.available_until}; --serving-image names a newer one of "
        "its list"
    )
