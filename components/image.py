"""The image that every step runs in."""

# The name that a local build gives it; `compile.py --image` replaces it with a pushed, pinned one.
IMAGE = "qcnn:latest"


def is_pinned(image: str) -> bool:
    """Whether an image's name fixes its content by a digest."""
    return "@sha256:" in image
