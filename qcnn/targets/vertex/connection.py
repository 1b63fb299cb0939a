"""Where on Vertex AI a target asks, as settings."""

import dataclasses

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE, Place
from qcnn.targets.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """A project and a location; the variables are those of Google's own libraries, then gcloud's.

    Raises:
        ConfigError: one of these is malformed.
    """

    project: str = setting(
        "Google Cloud project.", variables=("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"), metavar="ID"
    )
    location: str = setting(
        "Region, such as us-central1.", variables=("GOOGLE_CLOUD_REGION", "CLOUDSDK_AI_REGION"), metavar="REGION"
    )
    api_endpoint: str = setting(
        "Another API endpoint, HOST[:PORT].", "", variables=(ENDPOINT_VARIABLE,), metavar="HOST"
    )

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
