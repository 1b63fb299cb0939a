"""Options of the qcnn command."""
