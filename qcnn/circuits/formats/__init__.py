"""Circuits in files: read from OpenQASM and cirq JSON, held in an experiment as text, and written again."""
