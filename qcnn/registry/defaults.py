"""Default folder of a registry, and label and confidence of a promotion, which commands display without NumPy."""

CHAMPION = "champion"
CONFIDENCE = 0.95
FOLDER = "models"
