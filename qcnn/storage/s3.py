"""Store for S3 and compatible servers, such as that of Kubeflow (minio://).

boto3 finds the credentials.
"""

import contextlib
import os
import shutil
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

# Default artifact store of Kubeflow Pipelines in a cluster.
_KUBEFLOW_ENDPOINT = "http://minio-service.kubeflow:9000"
# boto3's variables for servers other than Amazon's; the first that is set is used.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_TRIES = 10
_LAST_CLIENT_ERROR = 499
_ONE_THREAD = TransferConfig(use_threads=False)


class S3Store:
    """A folder of an S3 bucket."""

    def __init__(self, uri: BucketUri) -> None:
        self._uri = uri
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
        if uri.scheme == "minio":
            endpoint = endpoint or _KUBEFLOW_ENDPOINT
        options: dict[str, Any] = {}
        if endpoint:
            # Some compatible servers support neither the newer checksums nor bucket names as host names.
            options = {
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "s3": {"addressing_style": "path"},
            }
        config = Config(
            connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": _TRIES}, **options
        )
        with self._translate_errors():
            self._client = boto3.session.Session().client("s3", endpoint_url=endpoint, config=config)

    def names(self) -> list[str]:
        """Return the names of all files."""
        prefix = self._uri.prefix
        with self._translate_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._uri.bucket, Prefix=prefix)
            return [item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", ())]

    def versions(self) -> dict[str, str]:
        """Return a version string for each file name. It changes with the content of the file."""
        prefix = self._uri.prefix
        with self._translate_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._uri.bucket, Prefix=prefix)
            items = [item for page in pages for item in page.get("Contents", ())]
            return {item["Key"].removeprefix(prefix): f"{item['ETag']} {item['Size']}" for item in items}

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with self._translate_errors():
            self._client.download_file(self._uri.bucket, self._key(name), str(path), Config=_ONE_THREAD)

    def write(self, path: Path, name: str) -> None:
        """Upload a local file atomically."""
        # boto3 reads the size once, so an event file may grow during the upload.
        with self._translate_errors(), path.open("rb") as file:
            self._client.upload_fileobj(file, self._uri.bucket, self._key(name), Config=_ONE_THREAD)

    def read_version(self, name: str, path: Path) -> str:
        """Copy a file to a local path, and return the version of this copy."""
        with self._translate_errors():
            answer = self._client.get_object(Bucket=self._uri.bucket, Key=self._key(name))
            with contextlib.closing(answer["Body"]) as body, path.open("wb") as file:
                shutil.copyfileobj(body, file)
        return str(answer["ETag"])

    def write_if(self, path: Path, name: str, version: str | None) -> bool:
        """Upload a local file atomically if the present file has a version, and return whether it was uploaded."""
        condition: Any = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        with self._translate_errors(), path.open("rb") as file:
            try:
                self._client.put_object(Bucket=self._uri.bucket, Key=self._key(name), Body=file, **condition)
            except ClientError as error:
                # 409 is the answer to concurrent writes, and the last one that to a file that was deleted.
                if (
                    error.response["ResponseMetadata"]["HTTPStatusCode"]
                    in (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT)
                    or error.response["Error"].get("Code") == "NoSuchKey"
                ):
                    return False
                raise
        return True

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with self._translate_errors():
            self._client.delete_object(Bucket=self._uri.bucket, Key=self._key(name))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _key(self, name: str) -> str:
        return self._uri.prefix + name

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (NoCredentialsError, PartialCredentialsError):
            raise ConfigError(
                "bucket: no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run as a service "
                f"account with credentials. Given: {self._uri}"
            ) from None
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status > _LAST_CLIENT_ERROR:
                raise self._unreachable(error) from None
            details = error.response["Error"]
            reason = details.get("Message") or details.get("Code")
            kind = MissingFileError if status == HTTPStatus.NOT_FOUND else ConfigError
            raise kind(f"bucket: request rejected ({reason}). Given: {self._uri}") from None
        except (BotoCoreError, Boto3Error) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        note = "" if isinstance(error, ClientError) else proxy_note(os.environ)
        return UnreachableError(f"bucket: request failed ({reason_of(error)}{note}). Given: {self._uri}")
