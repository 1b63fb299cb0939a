"""Runs another package's module as python -m does, but looks in the folder that the user runs from last.

python -m qcnn.run_module MODULE ...: see `qcnn.import_path`, which this package has called once it is imported.
"""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
