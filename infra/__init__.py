"""From an empty cloud project to one that trains, and back."""
