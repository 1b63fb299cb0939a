"""Cloud Resource Manager: lookup of the project number, which the SDK requests."""

from google.cloud import resourcemanager_v3

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.state import PROJECT_NUMBER


class Projects:
    """Handlers for a single project."""

    def __init__(self, project: str) -> None:
        self._project = project

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {"Projects/GetProject": self._get}

    def _get(self, request: resourcemanager_v3.GetProjectRequest) -> resourcemanager_v3.Project:
        if request.name not in (f"projects/{self._project}", f"projects/{PROJECT_NUMBER}"):
            raise StatusError(403, "The caller does not have permission")
        return resourcemanager_v3.Project(name=f"projects/{PROJECT_NUMBER}", project_id=self._project)
