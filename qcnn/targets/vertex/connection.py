"""Where on Vertex AI a target asks, as settings."""

import dataclasses

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE, Place
from qcnn.targets.base import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """A project and a location.

    Raises:
        ConfigError: one of these is malformed.
    """

    project: str = setting("Google Cloud project.", variable="GOOGLE_CLOUD_PROJECT")
    location: str = setting("Region, such as us-central1.", variable="GOOGLE_CLOUD_REGION")
    api_endpoint: str = setting("Another API endpoint, HOST[:PORT].", "", variable=ENDPOINT_VARIABLE)

    def __post_init__(self) -> None:
        # It checks the three.
        _ = self.place

    @property
    def place(self) -> Place:
        """What requests are made of."""
        for name in ("project", "location", "api_endpoint"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name}: must be text. Given: {getattr(self, name)!r}")
        return Place(self.project, self.location, self.api_endpoint)
