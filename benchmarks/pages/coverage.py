"""docs/coverage.md: what the source documents describe, and which tests show it. `python -m benchmarks.pages.coverage`

The page is generated from docs/coverage_rows.yaml (the rows) and the markers in tests/. Without `--write` the command
only checks whether it is up to date. Only a test with a row's id shows the row; nobody can claim it by hand.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.pages.coverage_markers import scan
from benchmarks.pages.coverage_rows import Coverage, Row, load
from benchmarks.pages.generated import write_or_check
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "coverage.md"
_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

TESTED, NOT_YET, OUT_OF_SCOPE = "tested", "**not yet**", "out of scope"
STANDINGS = (TESTED, NOT_YET, OUT_OF_SCOPE)


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of the page. `tests`: test id -> rows."""

    coverage: Coverage
    tests: Mapping[str, Sequence[str]]

    def tests_of(self, row: Row) -> list[str]:
        """Sorted ids of the tests with this row's id."""
        return sorted(test for test, rows in self.tests.items() if row.id in rows)

    def standing(self, row: Row) -> str:
        """One of STANDINGS."""
        if row.out_of_scope:
            return OUT_OF_SCOPE
        return TESTED if self.tests_of(row) else NOT_YET


def problems(shown: Shown) -> list[str]:
    """Mistakes: markers of rows that do not exist, and tests of rows that are out of scope."""
    rows = {row.id: row for row in shown.coverage.rows}
    found = []
    for test, ids in sorted(shown.tests.items()):
        for name in ids:
            if name not in rows:
                found.append(f"{test} covers {name!r}, which is no row of docs/coverage_rows.yaml")
            elif rows[name].out_of_scope:
                found.append(f"{test} covers {name!r}, which is out of scope")
    return found


def render(page: str, shown: Shown) -> str:
    """Replace every generated part of the page. Raises KeyError for an unknown part."""
    parts = {"documents": documents, "totals": totals, "conflicts": conflicts, "open": still_open, "rows": tables}
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']](shown)}{match[3]}", page)


def documents(shown: Shown) -> str:
    """The names that the page uses for the source documents."""
    return _table(("name", "what it is"), [(name, what) for name, what in shown.coverage.documents.values()])


def totals(shown: Shown) -> str:
    """The number of rows by kind and standing."""
    count = Counter((row.kind, shown.standing(row)) for row in shown.coverage.rows)
    kinds = sorted({kind for kind, _ in count})
    body = [[kind, *(str(count[kind, standing]) for standing in STANDINGS)] for kind in kinds]
    sums = [str(sum(count[kind, standing] for kind in kinds)) for standing in STANDINGS]
    return _table(["", *STANDINGS], [*body, ["all", *sums]])


def conflicts(shown: Shown) -> str:
    """Rows whose documents contradict each other or a measurement."""
    rows = [
        (_link(row), row.conflict, row.default or row.out_of_scope, row.other or "—")
        for row in shown.coverage.rows
        if row.conflict
    ]
    return _table(("row", "who says what", "the default", "the other way"), rows)


def still_open(shown: Shown) -> str:
    """Rows without a test, and what is missing."""
    rows = [(_link(row), row.missing) for row in shown.coverage.rows if shown.standing(row) == NOT_YET]
    return _table(("row", "what is missing"), rows) if rows else "Nothing.\n"


def tables(shown: Shown) -> str:
    """One section for each topic, with a line for each row."""
    head = ("row", "what is described", "where", "by default", "the other way", "shown by")
    made = []
    for title, rows in shown.coverage.sections:
        lines = [
            (
                f'<a id="{row.id}"></a>`{row.id}`<br>{row.kind}',
                row.says,
                ", ".join(shown.coverage.documents[key][0] for key in row.documents),
                row.default or f"left to others: {row.out_of_scope}",
                row.other or "—",
                _tests(row, shown) or ("—" if row.out_of_scope else NOT_YET),
            )
            for row in rows
        ]
        made.append(f"\n### {title}\n\n{_table(head, lines)}")
    return "".join(made)


def _tests(row: Row, shown: Shown) -> str:
    """Links to the row's tests."""
    parts = (test.partition("::") for test in shown.tests_of(row))
    return "<br>".join(f"[{name.replace('::', ' ')}](../{file})" for file, _, name in parts)


def _link(row: Row) -> str:
    return f"[`{row.id}`](#{row.id})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = chain([head, ["---"] * len(head)], rows)
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def newest() -> Shown:
    """The current rows and markers of the repository."""
    return Shown(load(), scan())


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if a marker names no row or the page is not up to date."""
    shown = newest()
    if found := problems(shown):
        print("\n".join(found))
        return 1
    return write_or_check(
        argv,
        PAGE,
        lambda page: render(page, shown),
        "docs/coverage.md from its rows and the tests' markers.",
        "is not what rows and markers say: run `python -m benchmarks.pages.coverage --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
