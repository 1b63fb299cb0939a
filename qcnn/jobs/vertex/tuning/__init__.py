"""A search whose trials Vertex AI chooses: a hyperparameter tuning job."""
