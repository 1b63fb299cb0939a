"""Environment variables that Vertex AI sets in every replica of a custom job.

Sources: "Distributed training" (CLUSTER_SPEC and TF_CONFIG), "Code requirements" (CLOUD_ML_*) and the comments of
`base_output_directory` in google/cloud/aiplatform/v1/custom_job.proto (AIP_*).
"""

import json
from collections.abc import Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1

# Role of each worker pool in TF_CONFIG.
_ROLES = ("chief", "worker", "ps", "evaluator")


def replicas(spec: v1.CustomJobSpec) -> list[tuple[int, int]]:
    """Return the pool and the index of every replica."""
    return [(pool, index) for pool, each in enumerate(spec.worker_pool_specs) for index in range(each.replica_count)]


def environment(
    job: v1.CustomJob, addresses: Mapping[tuple[int, int], str], pool: int, index: int, trial: str = ""
) -> dict[str, str]:
    """Return the variables that Vertex AI sets for a replica, and those of its pool's spec.

    Args:
        job: Custom job with its name.
        addresses: HOST:PORT of each replica.
        pool: Index of the replica's worker pool.
        index: Index of the replica in its pool.
        trial: ID of the tuning trial, if any.
    """
    _, project, _, location, _, job_id = job.name.split("/")
    found = {
        "CLOUD_ML_PROJECT_ID": project,
        "CLOUD_ML_REGION": location,
        "CLOUD_ML_JOB_ID": job_id,
        "CLUSTER_SPEC": _cluster_spec(job, addresses, pool, index, trial),
    }
    if len(addresses) > 1:
        found["TF_CONFIG"] = _tf_config(job, addresses, pool, index, trial)
    if trial:
        found["CLOUD_ML_TRIAL_ID"] = trial
    if base := job.job_spec.base_output_directory.output_uri_prefix:
        base = base.rstrip("/")
        for variable, folder in (
            ("MODEL_DIR", "model"),
            ("CHECKPOINT_DIR", "checkpoints"),
            ("TENSORBOARD_LOG_DIR", "logs"),
        ):
            found[f"AIP_{variable}"] = f"{base}/{folder}/"
    container = job.job_spec.worker_pool_specs[pool].container_spec
    return {**found, **{variable.name: variable.value for variable in container.env}}


def _cluster_spec(
    job: v1.CustomJob, addresses: Mapping[tuple[int, int], str], pool: int, index: int, trial: str
) -> str:
    task: dict[str, Any] = {"type": f"workerpool{pool}", "index": index, **({"trial": trial} if trial else {})}
    return _to_json({f"workerpool{number}": hosts for number, hosts in _by_pool(addresses).items()}, task, job)


def _tf_config(job: v1.CustomJob, addresses: Mapping[tuple[int, int], str], pool: int, index: int, trial: str) -> str:
    """Return TF_CONFIG. TensorFlow requires that the cluster does not contain the evaluator."""
    task: dict[str, Any] = {"type": _ROLES[pool], "index": index, **({"trial": trial} if trial else {})}
    found = {_ROLES[number]: hosts for number, hosts in _by_pool(addresses).items()}
    found.pop("evaluator", None)
    return _to_json(found, task, job)


def _by_pool(addresses: Mapping[tuple[int, int], str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for (pool, _), address in sorted(addresses.items()):
        found.setdefault(pool, []).append(address)
    return found


def _to_json(cluster: Mapping[str, list[str]], task: Mapping[str, Any], job: v1.CustomJob) -> str:
    spec = json.loads(v1.CustomJobSpec.to_json(job.job_spec, always_print_fields_with_no_presence=False))
    return json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": spec})
