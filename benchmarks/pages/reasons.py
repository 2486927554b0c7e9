"""The tables of docs/reasons.md, from the one table of reasons. `python -m benchmarks.pages.reasons [--write]`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from benchmarks.pages.generated import table, with_parts, write_or_check
from controller.domain.decision import Reason
from controller.domain.reason_table import REASON_TABLE
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "reasons.md"


def rendered(page: str) -> str:
    """The page with every band's table made anew. Raises KeyError for a part that nobody makes."""
    return with_parts(page, {band: _maker(band) for band in {reason.band for reason in Reason}})


def _maker(band: str) -> Callable[[], str]:
    return lambda: table(
        ["code", "in words", "what it means", "what to do", "keys"],
        [_row(reason) for reason in sorted(Reason, key=lambda r: r.value) if reason.band == band],
    )


def _row(reason: Reason) -> list[str]:
    told = REASON_TABLE[reason]
    code = f"`{reason.value}`" + (f", Pulsar's `{told.pulsar}`" if told.pulsar else "")
    return [code, told.words[-1], told.meaning, told.act, ", ".join(f"`{key}`" for key in told.keys)]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when the page is not up to date and was not written."""
    return write_or_check(
        argv,
        PAGE,
        rendered,
        "The tables of docs/reasons.md.",
        "does not say what the reasons mean: run `python -m benchmarks.pages.reasons --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
