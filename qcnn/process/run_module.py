"""Run a module of another package like python -m, with the working folder last in the search path.

Usage: python -m qcnn.process.run_module MODULE ... The import of the package qcnn moves the folder, see
`qcnn.process.import_path`.
"""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
