"""The classic of parameter servers, a line through noisy points, trained by the launchers of this project."""
