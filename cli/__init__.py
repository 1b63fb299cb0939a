"""The qcnn command."""
