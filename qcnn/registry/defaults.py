"""Default label and confidence of a promotion, which commands display without loading NumPy."""

CHAMPION = "champion"
CONFIDENCE = 0.95
