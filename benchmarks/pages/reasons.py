"""The tables of docs/reasons.md, from the table of reasons. `python -m benchmarks.pages.reasons [--write]`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from benchmarks.pages.generated import table, with_parts, write_or_check
from controller.domain.decision import Reason
from controller.domain.reasons.table import REASON_TABLE
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "reasons.md"


def render(page: str) -> str:
    """Replace the table of every band. Raises KeyError for an unknown part."""
    return with_parts(page, {band: _maker(band) for band in {reason.band for reason in Reason}})


def _maker(band: str) -> Callable[[], str]:
    return lambda: table(
        ["code", "in words", "what it means", "what to do", "keys"],
        [_row(reason) for reason in sorted(Reason, key=lambda r: r.value) if reason.band == band],
    )


def _row(reason: Reason) -> list[str]:
    entry = REASON_TABLE[reason]
    code = f"`{reason.value}`" + (f", Pulsar's `{entry.pulsar}`" if entry.pulsar else "")
    return [code, entry.words[-1], entry.meaning, entry.act, ", ".join(f"`{key}`" for key in entry.keys)]


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    return write_or_check(
        argv,
        PAGE,
        render,
        "The tables of docs/reasons.md.",
        "does not say what the reasons mean: run `python -m benchmarks.pages.reasons --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
