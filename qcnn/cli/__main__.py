"""The qcnn command where no script of that name is installed: python -m cli."""

from qcnn.cli.main import main

main()
