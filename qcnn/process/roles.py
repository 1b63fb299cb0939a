"""Roles of the processes of a training job."""

from typing import Literal, get_args

# Roles of TF_CONFIG, in the order of Vertex AI's worker pools.
Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = get_args(Role)
CHIEF, WORKER, PS, EVALUATOR = ROLES
