"""Examples in the docstrings of public names, run in a fixed order: python -m tests.docstring_examples."""

import doctest
import sys

import qcnn

# Examples may use files of earlier ones.
EXAMPLES = (qcnn.Experiment, qcnn.generate, qcnn.train, qcnn.load, qcnn.evaluate, qcnn.plan, qcnn.study, qcnn)


def main() -> None:
    """Run all examples in the working folder, and exit with 1 if one fails."""
    runner = doctest.DocTestRunner()
    for documented in EXAMPLES:
        # Methods have separate examples. The finder skips imported names of a module.
        found = doctest.DocTestFinder().find(documented, globs={})
        if not any(each.examples for each in found):
            sys.exit(f"no examples: {documented}")
        for each in found:
            runner.run(each)
    sys.exit(1 if runner.failures else 0)


if __name__ == "__main__":
    main()
