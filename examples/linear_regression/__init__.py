"""Linear regression with parameter servers, trained locally or as a TFJob."""
