"""`python -m tests.stored_state.write FOLDER [live|rounds]`: what this version leaves behind, as fixtures of the next.

Run it on the commit of a release, in its own checkout, before anything else is changed; the folder's name says the
version (`tests/data/state_0_1_0`). It needs `make setup` and takes about five minutes. Never write a folder anew that
is committed: what an older version wrote can only be written by that version.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import controller
from tests.stored_state.archive import LIVE_RUN, ROUNDS, pack_live, write_rounds
from tests.stored_state.live_run import run_live
from tests.stored_state.varied_rounds import varied_rounds

PARTS = ("live", "rounds")


def main(arguments: list[str]) -> int:
    """Write the parts named, or all; returns the exit code."""
    if not arguments or not set(arguments[1:]) <= set(PARTS):
        print(__doc__, file=sys.stderr)
        return 2
    folder, parts = Path(arguments[0]), arguments[1:] or PARTS
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {text}", flush=True)

    tell(f"written by {Path(controller.__file__).parent}, version {controller.__version__}")
    if "rounds" in parts:
        tell(f"{write_rounds(varied_rounds(tell), folder / ROUNDS)} rounds")
    if "live" in parts:
        run = Path(tempfile.mkdtemp(prefix="ballast-live-"))
        try:
            run_live(run, tell)
            pack_live(run, folder / LIVE_RUN)
        finally:
            tell(f"logs: {run}/logs") if not (folder / LIVE_RUN).exists() else shutil.rmtree(run)
    for path in sorted(folder.iterdir()):
        tell(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
