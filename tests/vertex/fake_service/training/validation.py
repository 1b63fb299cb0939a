"""Validation of a custom job at its creation.

Sources: comments of the fields in google/cloud/aiplatform/v1/custom_job.proto, and "Configure distributed training".
"""

import re

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.errors import StatusError, check_display_name, check_labels, require
from tests.vertex.fake_service.training.machines import unsupported_reason

_POOLS = 4
_MAX_VARIABLES = 100
_DISKS = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_SMALLEST_DISK, _LARGEST_DISK = 100, 64000
_WEEK = 7 * 24 * 3600
_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")


def check_custom_job(job: v1.CustomJob) -> None:
    """Validate a custom job.

    Raises:
        StatusError: If the job lacks a required field or has invalid or conflicting values.
    """
    check_display_name(job.display_name)
    check_labels(dict(job.labels))
    key = job.encryption_spec.kms_key_name
    if key and not _KEY.fullmatch(key):
        raise StatusError(400, f"Invalid `encryption_spec.kms_key_name`. Given: {key}")
    check_job_spec(job.job_spec)


def check_job_spec(spec: v1.CustomJobSpec) -> None:
    """Validate the spec of a custom job or a trial, and raise StatusError if it is invalid."""
    pools = list(spec.worker_pool_specs)
    require("job_spec.worker_pool_specs", pools)
    if len(pools) > _POOLS:
        raise StatusError(400, f"There must be at most {_POOLS} worker pools. Given: {len(pools)}")
    for index, pool in enumerate(pools):
        # An empty message is an omitted pool.
        if index == 0 or pool != v1.WorkerPoolSpec():
            _check_pool(f"job_spec.worker_pool_specs[{index}]", pool)
    if pools[0].replica_count > 1:
        raise StatusError(400, f"replica_count of the first worker pool must be 1. Given: {pools[0].replica_count}")
    if spec.tensorboard and not spec.service_account:
        raise StatusError(400, "`service_account` is required when `tensorboard` is specified.")
    output = spec.base_output_directory.output_uri_prefix
    if output and not output.startswith("gs://"):
        raise StatusError(400, f"`base_output_directory.output_uri_prefix` must begin with gs://. Given: {output}")
    if spec.network and not _NETWORK.fullmatch(spec.network):
        raise StatusError(
            400, f"Invalid `network`: must be projects/NUMBER/global/networks/NAME. Given: {spec.network}"
        )
    if spec.network and spec.psc_interface_config.network_attachment:
        raise StatusError(400, "`network` and `psc_interface_config` must not be set together.")
    _check_scheduling(spec.scheduling)


def _check_pool(field: str, pool: v1.WorkerPoolSpec) -> None:
    container, package = pool.container_spec, pool.python_package_spec
    if "container_spec" in pool:
        require(f"{field}.container_spec.image_uri", container.image_uri)
    else:
        require(f"{field}.python_package_spec.executor_image_uri", package.executor_image_uri)
        require(f"{field}.python_package_spec.package_uris", package.package_uris)
        require(f"{field}.python_package_spec.python_module", package.python_module)
    variables = [*container.env, *package.env]
    if len(variables) > _MAX_VARIABLES:
        raise StatusError(400, f"{field}: at most {_MAX_VARIABLES} environment variables. Given: {len(variables)}")
    for variable in variables:
        require(f"{field}.container_spec.env.name", variable.name)
    require(f"{field}.replica_count", pool.replica_count > 0)
    machine = pool.machine_spec
    require(f"{field}.machine_spec.machine_type", machine.machine_type)
    accelerator = machine.accelerator_type.name if machine.accelerator_type else ""
    if reason := unsupported_reason(machine.machine_type, accelerator, machine.accelerator_count):
        raise StatusError(400, f"{field}.machine_spec: {reason}")
    disk = pool.disk_spec
    if disk.boot_disk_type and disk.boot_disk_type not in _DISKS:
        raise StatusError(400, f"{field}.disk_spec.boot_disk_type: allowed are {_DISKS}. Given: {disk.boot_disk_type}")
    if disk.boot_disk_size_gb and not _SMALLEST_DISK <= disk.boot_disk_size_gb <= _LARGEST_DISK:
        raise StatusError(
            400,
            f"{field}.disk_spec.boot_disk_size_gb must be in [{_SMALLEST_DISK}, {_LARGEST_DISK}]. "
            f"Given: {disk.boot_disk_size_gb}",
        )


def _check_scheduling(scheduling: v1.Scheduling) -> None:
    if scheduling.max_wait_duration and scheduling.strategy != v1.Scheduling.Strategy.FLEX_START:
        raise StatusError(400, "`scheduling.max_wait_duration` is only for the strategy FLEX_START.")
    timeout = scheduling.timeout.total_seconds()
    if timeout < 0 or timeout > 4 * _WEEK:
        raise StatusError(400, f"`scheduling.timeout` must be at most 28 days. Given: {timeout} s")
