"""The errors a user can act on: one line each, ending in what was given."""


class QcnnError(Exception):
    """A fault with a known cause; the message is one line that names it."""


class ConfigError(QcnnError):
    """The experiment or the cluster was described wrongly."""


class ArtifactError(QcnnError):
    """A dataset, checkpoint or model folder is missing, damaged, or belongs to another experiment."""


class TrainingError(QcnnError):
    """Training cannot go on, and would fail again in the same way."""


class RetryableError(QcnnError):
    """Training was stopped from outside (a lost peer, a taken port); starting it again continues it."""
