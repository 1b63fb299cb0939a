"""The image that every step runs in."""

# The name a local build gives it; `compile.py --image` replaces it with a pushed, pinned one.
IMAGE = "qcnn:latest"
