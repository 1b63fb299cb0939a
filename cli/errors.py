"""Errors of the command line."""


class StepError(Exception):
    """A step of a pipeline failed; the message is one line that names it."""
