"""The image that every step runs in."""

# The name a local build gives it; `compile.py --image` replaces it with a pushed, pinned one.
IMAGE = "qcnn:latest"


def is_pinned(image: str) -> bool:
    """Whether an image's name says which one it is, by its digest, whenever it is pulled."""
    return "@sha256:" in image
