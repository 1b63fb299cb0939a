"""Create docs/images/report.png, a screenshot of a run's report: python scripts/report_screenshot.py RUN.

Requires chromium, which scripts/install-browser installs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "report.png"
# Pixels of the upper part of the report, down to the tables of parameters.
_SIZE = (1000, 1092)
_MAX_BYTES = 200_000


def draw(report: Path, picture: Path) -> None:
    """Save a screenshot of the upper part of a report."""
    with tempfile.TemporaryDirectory() as profile:
        options = ("headless", "no-sandbox", "no-first-run", "hide-scrollbars", "disable-gpu", "disable-sync")
        command = ["chromium", *(f"--{option}" for option in options), f"--user-data-dir={profile}"]
        command += [f"--window-size={_SIZE[0]},{_SIZE[1]}", f"--screenshot={picture}", report.resolve().as_uri()]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"picture: chromium cannot save it; scripts/install-browser installs chromium. Given: {error}")


def main() -> None:
    """Save a screenshot of the report of the run in the command line."""
    reports = [Path(run, "evaluate", "report.html") for run in sys.argv[1:]]
    if len(reports) != 1 or not reports[0].is_file():
        sys.exit(f"picture: requires the folder of one finished run. Given: {' '.join(sys.argv[1:]) or 'none'}")
    draw(reports[0], PICTURE)
    size = PICTURE.stat().st_size
    if size > _MAX_BYTES:
        sys.exit(f"picture: must have at most {_MAX_BYTES} bytes. Given: {size}")


if __name__ == "__main__":
    main()
