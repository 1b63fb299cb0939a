"""Known datasets as tables for the field `data`: sources, resizing, steps fitted on training rows, and files."""
