"""Which images always have the same content."""

from qcnn.components.image import IMAGE, is_pinned


def test_only_a_digest_pins_an_image() -> None:
    assert is_pinned("registry.example/team/qcnn@sha256:" + 64 * "0")
    assert not is_pinned("registry.example/team/qcnn:1.0")
    assert not is_pinned(IMAGE)
