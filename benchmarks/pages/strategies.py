"""The generated parts of docs/strategies.md. `python -m benchmarks.pages.strategies [--write]`

The command plays every strategy on the published cases V01–V33, which takes some seconds. The parts about the field
come from benchmarks/results/strategy_field.json. Without `--write` it only checks whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from benchmarks.pages.generated import table, with_parts, write_or_check
from benchmarks.pages.strategy_field import PARTS as FIELD_PARTS
from benchmarks.published.case import Case, play
from benchmarks.published.cases import CASES
from controller.policy.strategies import STRATEGIES
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "strategies.md"


def render(page: str) -> str:
    """Replace every generated part of the page. Raises KeyError for an unknown part."""
    return with_parts(page, PARTS)


def published() -> str:
    """One row for each case: what it is, and what each strategy did."""
    rows = [[f"{case.name}: {case.title}", *(_cell(case, name) for name in STRATEGIES)] for case in CASES]
    good = [sum(row[1 + at].startswith("good") for row in rows) for at in range(len(STRATEGIES))]
    rows.append(["**good**", *(f"**{count} of {len(CASES)}**" for count in good)])
    return table(["case", *(f"`{name}`" for name in STRATEGIES)], rows)


def _cell(case: Case, strategy: str) -> str:
    played = play(case, strategy)
    counts = ((len(played.moves), "move"), (len(played.splits), "split"))
    did = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n) or "nothing"
    complaint = case.judge(played)
    return f"good: {did}" if complaint is None else f"{did}; {complaint}"


PARTS: dict[str, Callable[[], str]] = {"published": published, **FIELD_PARTS}


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    return write_or_check(
        argv,
        PAGE,
        render,
        "The generated parts of docs/strategies.md.",
        "does not say what the strategies do: run `python -m benchmarks.pages.strategies --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
