"""Syntax of image references, namespace names and timestamps."""

import datetime

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.references import check_namespace, gpu_image, is_image, micro_time, parse_time

DIGEST = "sha256:" + 64 * "a"


@pytest.mark.parametrize(
    "text",
    [
        *("qcnn", "qcnn:latest", "team/qcnn", "docker.io/library/qcnn:1.0", "localhost:5000/qcnn", "Host/qcnn"),
        *(f"qcnn@{DIGEST}", f"europe-docker.pkg.dev/p-1/qcnn/qcnn:v1@{DIGEST}", "a__b/c--d.e_f", "[2001:db8::1]:5/a"),
        *("qcnn:" + 128 * "t", "h/" + 253 * "a"),
    ],
)
def test_is_image_accepts_valid_references(text: str) -> None:
    assert is_image(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a b", "QCNN:1", "team/Qcnn", "qcnn:", "qcnn:a b", "qcnn:.1", "-qcnn", "a//b", "/a", "a/", "a___b"),
        *("https://host/qcnn", "qcnn@sha256:1", f"qcnn@{DIGEST[:-1]}", f"qcnn@{DIGEST.upper()}", "qcnn\n", "量子"),
        *("qcnn:" + 129 * "t", "h/" + 254 * "a"),
    ],
)
def test_is_image_rejects_invalid_references(text: str) -> None:
    assert not is_image(text)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("qcnn", "qcnn:latest-gpu"),
        ("qcnn:latest", "qcnn:latest-gpu"),
        ("team/qcnn-gpu", "team/qcnn-gpu:latest-gpu"),
        # The port is not a tag.
        ("localhost:5000/qcnn", "localhost:5000/qcnn:latest-gpu"),
        ("localhost:5000/team/qcnn:1.0", "localhost:5000/team/qcnn:1.0-gpu"),
        ("[2001:db8::1]:5/a:b", "[2001:db8::1]:5/a:b-gpu"),
        ("qcnn:1.0-gpu", "qcnn:1.0-gpu"),
        ("qcnn:gpu", "qcnn:gpu-gpu"),
        (f"qcnn@{DIGEST}", f"qcnn@{DIGEST}"),
        (f"host/qcnn:1@{DIGEST}", f"host/qcnn:1@{DIGEST}"),
        ("qcnn:" + 124 * "t", "qcnn:" + 124 * "t" + "-gpu"),
    ],
)
def test_gpu_image_adds_tag_suffix_once(image: str, expected: str) -> None:
    assert gpu_image("image", image) == expected
    assert is_image(expected)
    assert gpu_image("image", expected) == expected


def test_gpu_image_too_long_tag_is_an_error() -> None:
    image = "qcnn:" + 125 * "t"
    with pytest.raises(ConfigError) as error:
        gpu_image("pod.image", image)
    assert str(error.value) == (
        f"pod.image: must have a tag of at most 124 characters with GPUs, which add -gpu. Given: {image}"
    )


@pytest.mark.parametrize("text", ["a", "kubeflow", "team-1", "1a", 63 * "n"])
def test_check_namespace_accepts_rfc_1123_labels(text: str) -> None:
    check_namespace(text)


@pytest.mark.parametrize("text", ["", "My NS", "Team", "a.b", "-a", "a-", "a_b", 64 * "n", "a\n", "ä"])
def test_check_namespace_invalid_name_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^namespace: must be at most 63 lowercase letters, .* Given: "):
        check_namespace(text)


NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T12:00:00Z", NOON.replace(microsecond=0)),
        ("2026-01-31T12:00:00.250000Z", NOON),
        ("2026-01-31T13:00:00.250000+01:00", NOON),
    ],
)
def test_parse_time_accepts_fractions_and_offsets(text: str, time: datetime.datetime) -> None:
    assert parse_time(text) == time


def test_micro_time_has_six_digits() -> None:
    assert micro_time(NOON) == "2026-01-31T12:00:00.250000Z"
    assert micro_time(NOON.replace(microsecond=0)) == "2026-01-31T12:00:00.000000Z"


def test_parse_time_invalid_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="soon"):
        parse_time("soon")
