"""The rules by which Vertex AI ends a trial early ("Overview of hyperparameter tuning")."""

NONE, MEDIAN, DECAY_CURVE = "none", "median", "decay_curve"
RULES = (NONE, MEDIAN, DECAY_CURVE)
DEFAULT = MEDIAN
