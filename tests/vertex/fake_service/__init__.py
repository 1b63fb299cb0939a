"""Local stand-in for Vertex AI that serves Google's unmodified clients, built from Google's message types.

It stores resources in memory, runs jobs as local processes and injects the failures that a test configures. Methods
that are not implemented return UNIMPLEMENTED. `vertex.py` assembles the server.
"""
