"""A Vertex AI on this machine, for launchers that run as processes of their own."""

from tests.vertex.conftest import vertex as vertex
