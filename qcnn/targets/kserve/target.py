"""The target kserve: model servers as InferenceServices."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Generator, Mapping, Sequence
from typing import ClassVar, cast

from typing_extensions import override

from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.inference_service import (
    INFERENCE_SERVICES,
    KIND,
    InferenceSettings,
    Mode,
    inference_service,
    is_managed,
    is_ready,
    is_stale,
    own_predictor,
    reason,
    revisions,
    rolled_back,
    tensorflow_predictor,
    updated,
)
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.pod_settings import pod_settings
from qcnn.targets.base import Deployed, Deploys, ReportLine, Request
from qcnn.targets.cluster import ClusterConnection
from qcnn.targets.kubernetes.serving import ServerFields, ServesModels, requests_to_print
from qcnn.targets.settings import setting

DEPLOY_HELP = """
Serve MODEL as an InferenceService of KServe.

MODEL is a URI of a model or of the versions that `qcnn export` writes. The server is qcnn serve, with both protocols,
or TensorFlow Serving with --server tensorflow. In Knative mode, a new revision can receive a part of the traffic;
deploy it again with --traffic 100 to give it all. --rollback restores the revision before the current one.
"""
_OWN, _TENSORFLOW = "qcnn", "tensorflow"
# Pod settings that apply to KServe's runtime of TensorFlow Serving.
_OF_RUNTIME = ("cpu", "memory", "service_account")
# Seconds within which KServe changes the status of an InferenceService after its predictor was changed.
_SETTLE_SECONDS = 10
_SOURCE = re.compile(r"(gs|s3|pvc)://[^/\s]+(/\S*)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(ServerFields):
    """Settings of an InferenceService.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    server: str = setting("Server of the model.", _OWN, choices=(_OWN, _TENSORFLOW))
    deployment_mode: str | None = setting(
        "Deployment mode of KServe.", None, shown="that of the cluster", choices=("Standard", "Knative")
    )
    traffic: int = setting(
        "Traffic percentage for the new revision. Less than 100 requires the mode Knative.", 100, minimum=0, maximum=100
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.server == _TENSORFLOW and not self.rollback:
            given = {name for name in ("pod", "environment") if getattr(self, name)} | self._overrides.keys()
            if extra := sorted(given - {*_OF_RUNTIME}):
                raise ConfigError(
                    f"{extra[0]}: must be omitted with server {_TENSORFLOW}, whose pods KServe defines. "
                    f"Given: {getattr(self, extra[0])}"
                )
            if not _SOURCE.fullmatch(self.model or ""):
                raise ConfigError(
                    f"model: must be gs://, s3:// or pvc:// with server {_TENSORFLOW}, which has no others. "
                    f"Given: {self.model}"
                )
            if self.trust:
                raise ConfigError(f"trust: must be omitted with server {_TENSORFLOW}. Given: True")

    @property
    def inference(self) -> InferenceSettings:
        """Mode, replicas and traffic."""
        mode = cast("Mode | None", self.deployment_mode)
        return InferenceSettings(mode, self.min_replicas, self.max_replicas, self.traffic)

    @property
    def manifest(self) -> Manifest:
        """InferenceService without a history."""
        if self.server == _OWN:
            predictor = own_predictor(self.spec, self.inference)
        else:
            resources = {name: value for name, value in (("cpu", self.cpu), ("memory", self.memory)) if value}
            # Checks the quantities.
            pod_settings({"image": _TENSORFLOW, **resources})
            both = {"requests": resources, "limits": resources} if resources else {}
            predictor = tensorflow_predictor(self.model or "", self.version, both, self.service_account, self.inference)
        return inference_service(self.endpoint, predictor, self.inference.mode)


class KServeTarget(ServesModels, Deploys[Settings]):
    """The target for InferenceServices."""

    name: ClassVar[str] = "kserve"
    title: ClassVar[str] = "a cluster with KServe"
    job_kind: ClassVar[str] = KIND
    # The Kubernetes client is a base dependency.
    extra: ClassVar[str] = ""
    connection_settings: ClassVar[type[ClusterConnection]] = ClusterConnection
    deploy_settings: ClassVar[type[Settings]] = Settings
    deploy_help: ClassVar[str] = DEPLOY_HELP

    @override
    def place(self) -> str:
        return f"namespace {self.api.namespace}"

    @override
    def deploy_requests(self, settings: Settings) -> Sequence[Request]:
        return requests_to_print(settings, lambda: [settings.manifest])

    @override
    def deploy(
        self, settings: Settings, report: ReportLine, warn: ReportLine
    ) -> tuple[Sequence[Deployed], Mapping[str, str]]:
        """Deploy a model, or the previous revision, and wait until KServe reports that it is ready."""
        name, api = settings.endpoint, self.api
        existing = self._find(name) if settings.rollback else api.get(INFERENCE_SERVICES, name)
        if settings.rollback and existing:
            manifest = rolled_back(existing)
        else:
            account = settings.spec.pod.service_account if settings.server == _OWN else settings.service_account
            if account:
                check_account_exists(api, account)
            if existing and not is_managed(existing):
                raise ConfigError(f"endpoint: belongs to an {KIND} that qcnn did not create. Given: {name}")
            manifest = updated(existing, settings.manifest)
        api.apply(INFERENCE_SERVICES, manifest)
        report(f"waiting until {name} is ready, at most {settings.timeout_seconds} s")
        found = self._wait(name, existing, settings.timeout_seconds)
        url = str(found.get("status", {}).get("url") or "not reported by KServe")
        return self.deployed(name), {"endpoint": url}

    @override
    def deployed(self, endpoint: str) -> Sequence[Deployed]:
        return [Deployed(each.name, each.version, each.traffic) for each in revisions(self._find(endpoint))]

    @override
    def undeploy(self, endpoint: str) -> None:
        found = self._find(endpoint)
        self.api.delete(INFERENCE_SERVICES, endpoint, uid=found["metadata"]["uid"], dependents_first=True)
        with contextlib.closing(self._watch(endpoint)) as watch:
            next(objects for objects in watch if endpoint not in objects)

    def _find(self, name: str) -> Manifest:
        found = self.api.get(INFERENCE_SERVICES, name)
        if found is None or not is_managed(found):
            raise ArtifactError(f"endpoint: qcnn created none in namespace {self.api.namespace}. Given: {name}")
        return found

    def _wait(self, name: str, before: Manifest | None, seconds: int) -> Manifest:
        """Return an InferenceService that is ready.

        Args:
            name: Name of the InferenceService.
            before: InferenceService before it was applied, or None.
            seconds: Timeout in seconds.

        Raises:
            ConfigError: If it is not ready in time.
        """
        if before:
            with contextlib.closing(self._watch(name, _SETTLE_SECONDS)) as watch:
                next((each for each in watch if name in each and not is_stale(each[name], before)), None)
        last: Manifest = {}
        with contextlib.closing(self._watch(name, seconds)) as watch:
            for objects in watch:
                last = objects.get(name, last)
                if name in objects and is_ready(last):
                    return last
        raise ConfigError(f"endpoint: not ready after {seconds} s: {reason(last)}. Given: {name}")

    def _watch(self, name: str, seconds: float = math.inf) -> Generator[dict[str, Manifest]]:
        return self.api.watch(INFERENCE_SERVICES, seconds=seconds, fieldSelector=f"metadata.name={name}")
