"""What is Vertex AI's own of a pipeline: how it trains, and which machines its steps get."""
