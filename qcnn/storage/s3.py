"""S3 and servers that speak like it, such as Kubeflow's own (minio://); boto3 finds the credentials."""

import contextlib
import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from qcnn.errors import ConfigError
from qcnn.storage.store import BucketUri, MissingFileError, UnreachableError, proxy_note, reason_of

# Where Kubeflow Pipelines keeps artifacts in a cluster unless it is told otherwise.
_KUBEFLOW_ENDPOINT = "http://minio-service.kubeflow:9000"
# Variables that name a server other than Amazon's to boto3; the first that is set counts.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_TRIES = 10
_LAST_REFUSAL = 499
_ONE_THREAD = TransferConfig(use_threads=False)


class S3Store:
    """A folder of an S3 bucket."""

    def __init__(self, address: BucketUri) -> None:
        self._address = address
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
        if address.scheme == "minio":
            endpoint = endpoint or _KUBEFLOW_ENDPOINT
        options: dict[str, Any] = {}
        if endpoint:
            # Not all servers that speak like S3 know its newer checksums, or buckets as names of hosts.
            options = {
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "s3": {"addressing_style": "path"},
            }
        config = Config(
            connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": _TRIES}, **options
        )
        with self._one_line():
            self._client = boto3.session.Session().client("s3", endpoint_url=endpoint, config=config)

    def names(self) -> list[str]:
        """Return the names of all files."""
        prefix = self._address.prefix
        with self._one_line():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._address.bucket, Prefix=prefix)
            return [item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", ())]

    def versions(self) -> dict[str, str]:
        """Return the names of all files, each with a mark that changes with its content."""
        prefix = self._address.prefix
        with self._one_line():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._address.bucket, Prefix=prefix)
            items = [item for page in pages for item in page.get("Contents", ())]
            return {item["Key"].removeprefix(prefix): f"{item['ETag']} {item['Size']}" for item in items}

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with self._one_line():
            self._client.download_file(self._address.bucket, self._key(name), str(path), Config=_ONE_THREAD)

    def write(self, path: Path, name: str) -> None:
        """Copy a local file; a reader sees the whole, or what was there before."""
        # How long it is, is asked once: a file of events may grow during the upload.
        with self._one_line(), path.open("rb") as file:
            self._client.upload_fileobj(file, self._address.bucket, self._key(name), Config=_ONE_THREAD)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._one_line():
            self._client.delete_object(Bucket=self._address.bucket, Key=self._key(name))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _key(self, name: str) -> str:
        return self._address.prefix + name

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except (NoCredentialsError, PartialCredentialsError):
            raise ConfigError(
                "bucket: no credentials are found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run as a "
                f"service account that has some. Given: {self._address}"
            ) from None
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status > _LAST_REFUSAL:
                raise self._unreachable(error) from None
            words = error.response["Error"]
            reason = words.get("Message") or words.get("Code")
            kind = MissingFileError if status == HTTPStatus.NOT_FOUND else ConfigError
            raise kind(f"bucket: refuses ({reason}). Given: {self._address}") from None
        except (BotoCoreError, Boto3Error) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        note = "" if isinstance(error, ClientError) else proxy_note(os.environ)
        return UnreachableError(
            f"bucket: does not answer as it should ({reason_of(error)}{note}). Given: {self._address}"
        )
