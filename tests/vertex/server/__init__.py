"""A Vertex AI on this machine, made of Google's own message types, for clients that know no other than the real one.

It keeps what it is given, runs it as local processes and fails as a test says. What is not here answers
UNIMPLEMENTED. `vertex.py` holds it all together.
"""
