"""Run the qcnn command as a module: python -m qcnn.cli."""

from qcnn.cli.main import main

main()
