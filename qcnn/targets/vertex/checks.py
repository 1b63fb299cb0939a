"""Checks of a project on Vertex AI before a run."""

from __future__ import annotations

import contextlib
import functools
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError, single_line
from qcnn.jobs.vertex.location import VertexLocation
from qcnn.targets.checks import Check, DrawbackError, UnknownError
from qcnn.targets.vertex.client import Connection, VertexClient, translate_errors
from qcnn.targets.vertex.submission import check_bucket

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_SERVICES = ("aiplatform.googleapis.com", "storage.googleapis.com")
# Of role roles/aiplatform.user (cloud.google.com/vertex-ai/docs/general/access-control).
_PERMISSIONS = (
    *("aiplatform.customJobs.create", "aiplatform.customJobs.get", "aiplatform.customJobs.list"),
    *("aiplatform.pipelineJobs.create", "aiplatform.pipelineJobs.get", "aiplatform.pipelineJobs.list"),
)
_ACT_AS = "iam.serviceAccounts.actAs"
_METRIC = "aiplatform.googleapis.com/custom_model_training_cpus"
_SECONDS = 8.0

# Sends a request to a Google API with a JSON body, or GET without one, and returns the answer.
Send = Callable[[str, Mapping[str, object] | None], Mapping[str, Any]]


def vertex_checks(client: VertexClient, connection: Connection, account: str, output: str) -> Sequence[Check]:
    """Return the checks of a project.

    Args:
        client: Clients of Vertex AI.
        connection: Connection settings.
        account: Service account of the steps, or empty.
        output: Output folder of a run, or empty.
    """
    place = connection.place

    @functools.cache
    def send() -> Send:
        return _sender(place)

    return (
        Check("credentials", credentials),
        Check("APIs", lambda: enabled_services(send(), place.project), "credentials"),
        Check("region", lambda: region(client, place), "credentials"),
        Check("rights", lambda: project_rights(send(), place.project), "credentials"),
        *([Check("service account", lambda: acts_as(send(), account), "credentials")] if account else ()),
        Check("quota", lambda: processors(send(), place), "credentials"),
        *([Check("bucket", lambda: bucket(output, place), "credentials")] if output else ()),
    )


def credentials() -> str:
    """Return the kind of Google's application default credentials, and their account.

    Raises:
        ConfigError: If there are none.
    """
    import google.auth
    import google.auth.exceptions

    try:
        found, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise ConfigError(
            "credentials: log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS. "
            f"Given: {single_line(error)}"
        ) from None
    kind = type(found).__module__.removeprefix("google.").replace(".", " ").replace("_", " ")
    account = getattr(found, "service_account_email", "") or getattr(found, "account", "")
    return f"{kind}{f', {account}' if account else ''}"


def _sender(place: VertexLocation) -> Send:
    import google.auth
    import requests
    from google.auth.transport.requests import AuthorizedSession

    found, _ = google.auth.default(scopes=[_SCOPE])
    session = AuthorizedSession(found)

    def send(url: str, body: Mapping[str, object] | None) -> Mapping[str, Any]:
        with translate_errors(place):
            try:
                method = "GET" if body is None else "POST"
                answer = session.request(method, url, json=body, timeout=_SECONDS, max_allowed_time=_SECONDS)
            except requests.exceptions.RequestException as error:
                raise UnknownError(f"{urllib.parse.urlsplit(url).hostname} does not answer") from error
        if answer.status_code != 200:
            reason = ""
            with contextlib.suppress(ValueError, LookupError, TypeError):
                reason = single_line(answer.json()["error"]["message"])
            raise UnknownError(f"{urllib.parse.urlsplit(url).hostname}: {reason or f'status {answer.status_code}'}")
        return dict(answer.json())

    return send


def enabled_services(send: Send, project: str) -> str:
    """Return the APIs that are enabled in a project (Service Usage API, services.get).

    Raises:
        ConfigError: If a required one is not.
    """
    for service in _SERVICES:
        state = send(f"https://serviceusage.googleapis.com/v1/projects/{project}/services/{service}", None).get("state")
        if state != "ENABLED":
            raise ConfigError(
                f"API: must be enabled: `gcloud services enable {service} --project {project}`. Given: {service} is "
                f"{str(state).lower()}"
            )
    return f"{', '.join(_SERVICES)} are enabled"


def region(client: VertexClient, place: VertexLocation) -> str:
    """Return the region, whose jobs can be listed.

    Raises:
        BackendError: If they cannot: no such region or project, API not enabled, or no right.
    """
    client.check("JobService.list_custom_jobs", parent=place.parent)
    return f"{place.location} answers for project {place.project}"


def project_rights(send: Send, project: str) -> str:
    """Return that the credentials have the rights to run jobs (Cloud Resource Manager, projects.testIamPermissions).

    Raises:
        ConfigError: If one is missing.
    """
    url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{project}:testIamPermissions"
    _check_permissions(send(url, {"permissions": _PERMISSIONS}), _PERMISSIONS, "role roles/aiplatform.user", project)
    return "those of roles/aiplatform.user"


def acts_as(send: Send, account: str) -> str:
    """Return that the credentials may run steps as a service account (IAM, serviceAccounts.testIamPermissions).

    Raises:
        ConfigError: If they may not.
    """
    url = f"https://iam.googleapis.com/v1/projects/-/serviceAccounts/{urllib.parse.quote(account)}:testIamPermissions"
    answer = send(url, {"permissions": [_ACT_AS]})
    _check_permissions(answer, [_ACT_AS], "role roles/iam.serviceAccountUser for it", account)
    return f"steps can run as {account}"


def _check_permissions(answer: Mapping[str, Any], wanted: Sequence[str], role: str, given: str) -> None:
    if missing := sorted({*wanted} - {*answer.get("permissions", ())}):
        raise ConfigError(f"rights: must include {', '.join(missing)}; grant {role}. Given: {given}")


def processors(send: Send, place: VertexLocation) -> str:
    """Return the limit for the CPUs of training jobs in a region (Service Usage API, consumerQuotaMetrics.get).

    Raises:
        ConfigError: If it is 0.
        UnknownError: If the service does not return it.
    """
    metric = urllib.parse.quote(_METRIC, safe="")
    url = "https://serviceusage.googleapis.com/v1beta1/projects"
    answer = send(f"{url}/{place.project}/services/{_SERVICES[0]}/consumerQuotaMetrics/{metric}", None)
    buckets = [bucket for limit in answer.get("consumerQuotaLimits", ()) for bucket in limit.get("quotaBuckets", ())]
    of_region = [each for each in buckets if each.get("dimensions", {}).get("region") == place.location]
    found = next(iter((*of_region, *(each for each in buckets if not each.get("dimensions")))), None)
    if found is None:
        raise UnknownError(f"no limit of {_METRIC} is known in {place.location}")
    limit = int(found.get("effectiveLimit", 0))
    if limit == 0:
        raise ConfigError(f"quota: must allow CPUs for training; request {_METRIC} in the console. Given: 0")
    return f"{'unlimited' if limit < 0 else limit} CPUs for training in {place.location}"


def bucket(output: str, place: VertexLocation) -> str:
    """Return that a bucket is in the region of the run.

    Raises:
        ConfigError: If it does not exist.
        DrawbackError: If it is in another region.
    """
    warnings: list[str] = []
    check_bucket(output, place, warnings.append)
    if warnings:
        raise DrawbackError(warnings[0].removeprefix("warning: "))
    return f"{output} is in {place.location}, or in several regions"
