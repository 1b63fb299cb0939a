"""What the commands ask of Vertex AI, and how its answers are said."""
