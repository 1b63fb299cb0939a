"""Run many commands in one gcloud process, which takes two seconds to start. Requires gcloud's bundled Python.

stdin is a JSON list of commands. stdout is a JSON list of (succeeded, stdout, stderr).
"""

import importlib
import io
import json
import sys

sys.path[:0] = [f"{sys.argv[1]}/lib", f"{sys.argv[1]}/lib/third_party"]
log = importlib.import_module("googlecloudsdk.core.log")
cli = importlib.import_module("googlecloudsdk.gcloud_main").CreateCLI([])
answers = []
for words in json.load(sys.stdin):
    output, errors = io.StringIO(), io.StringIO()
    log.Reset(output, errors)
    sys.stdout, sys.stderr = output, errors
    try:
        cli.Execute(words)
        succeeded = True
    except SystemExit as error:
        succeeded = not error.code
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    answers.append((succeeded, output.getvalue(), errors.getvalue()))
json.dump(answers, sys.stdout)
