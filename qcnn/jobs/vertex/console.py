"""Pages of Google's console, with the addresses that google-cloud-aiplatform 1.165 builds.

Sources: PipelineJob._dashboard_uri, _Schedule._dashboard_uri, utils/console_utils.py. TensorBoard's experiment of a
custom job has the job's id.
"""

from qcnn.jobs.vertex.place import Place

_CONSOLE = "https://console.cloud.google.com"


def run_page(place: Place, run: str) -> str:
    """Return the page of a pipeline job."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/pipelines/runs/{run}?project={place.project}"


def schedule_page(place: Place, schedule: str) -> str:
    """Return the page of a schedule."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/pipelines/schedules/{schedule}?project={place.project}"


def job_page(place: Place, job: str) -> str:
    """Return the page of a custom job."""
    return f"{_CONSOLE}/agent-platform/locations/{place.location}/training/{job}?project={place.project}"


def endpoint_page(place: Place, endpoint: str) -> str:
    """Return the page of an endpoint."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/endpoints/{endpoint}?project={place.project}"


def tensorboard_page(tensorboard: str, job: str) -> str:
    """Return the page of a custom job in the managed TensorBoard of a resource name, such as projects/.../123."""
    location = tensorboard.split("/")[3]
    name = f"{tensorboard}/experiments/{job}".replace("/", "+")
    return f"https://{location}.tensorboard.googleusercontent.com/experiment/{name}"
