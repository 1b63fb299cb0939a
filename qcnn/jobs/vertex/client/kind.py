"""The kinds of jobs that Vertex AI runs, by what its client library calls them."""

import dataclasses
from typing import Any

from qcnn.jobs.vertex.client.library import aiplatform

# Either has a name, a state, labels, times and an error.
VertexJob = aiplatform.CustomJob | aiplatform.HyperparameterTuningJob


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of job: its `word` in messages, its `field` in requests, its type and where its processes stand."""

    word: str
    field: str
    type: type[Any]
    specification: str

    def request(self, action: str) -> Any:
        """Return the type of a request, such as List...Request."""
        ending = "sRequest" if action == "List" else "Request"
        return getattr(aiplatform, f"{action}{self.type.__name__}{ending}")

    def processes(self, job: VertexJob) -> aiplatform.CustomJobSpec:
        """Return what says which processes a job runs."""
        found: aiplatform.CustomJobSpec = getattr(job, self.specification)
        return found


CUSTOM = Kind("custom job", "custom_job", aiplatform.CustomJob, "job_spec")
TUNING = Kind("tuning job", "hyperparameter_tuning_job", aiplatform.HyperparameterTuningJob, "trial_job_spec")


def kind_of(job: VertexJob) -> Kind:
    """Return the kind of a job."""
    return CUSTOM if isinstance(job, aiplatform.CustomJob) else TUNING
