"""docs/coverage.md: what the source documents describe, and what shows it. `python -m benchmarks.pages.coverage`

Made of docs/coverage_rows.yaml (the rows), the markers in tests/ and docs/coverage_outcomes.json (how those tests
ended). Without `--write` it only says whether the page is up to date. A row is done when a test that carries its id has
passed and none has failed; nobody can write it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.pages.coverage_markers import read_outcomes, scan
from benchmarks.pages.coverage_rows import Coverage, Row, load
from benchmarks.pages.generated import write_or_check
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "coverage.md"
_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

DONE, FAILING, NOT_RUN, NOT_YET, OUT_OF_SCOPE = "done", "**failing**", "**not run**", "**not yet**", "out of scope"
STATUSES = (DONE, FAILING, NOT_RUN, NOT_YET, OUT_OF_SCOPE)


@dataclass(frozen=True, slots=True)
class Shown:
    """All that the page is made of. `tests`: test id -> rows; `outcomes`: test id -> passed, failed or skipped."""

    coverage: Coverage
    tests: Mapping[str, Sequence[str]]
    outcomes: Mapping[str, str]

    def tests_of(self, row: Row) -> list[str]:
        """Sorted ids of the tests that carry this row's id."""
        return sorted(test for test, rows in self.tests.items() if row.id in rows)

    def status(self, row: Row) -> str:
        """One of STATUSES. A failure outweighs every pass; a test whose outcome nobody knows is no proof."""
        if row.out_of_scope:
            return OUT_OF_SCOPE
        ended = [self.outcomes.get(test) for test in self.tests_of(row)]
        if not ended:
            return NOT_YET
        if "failed" in ended:
            return FAILING
        return DONE if "passed" in ended else NOT_RUN


def problems(shown: Shown) -> list[str]:
    """What must not be: markers of rows that do not exist, tests of what is out of scope."""
    rows = {row.id: row for row in shown.coverage.rows}
    found = []
    for test, ids in sorted(shown.tests.items()):
        for name in ids:
            if name not in rows:
                found.append(f"{test} covers {name!r}, which is no row of docs/coverage_rows.yaml")
            elif rows[name].out_of_scope:
                found.append(f"{test} covers {name!r}, which is out of scope")
    return found


def rendered(page: str, shown: Shown) -> str:
    """The page with every generated part made anew. Raises KeyError for a part that nobody makes."""
    parts = {"documents": documents, "totals": totals, "conflicts": conflicts, "open": still_open, "rows": tables}
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']](shown)}{match[3]}", page)


def documents(shown: Shown) -> str:
    """The names that the page uses for the source documents."""
    return _table(("name", "what it is"), [(name, what) for name, what in shown.coverage.documents.values()])


def totals(shown: Shown) -> str:
    """How many rows of each kind stand how."""
    count = Counter((row.kind, shown.status(row)) for row in shown.coverage.rows)
    kinds = sorted({kind for kind, _ in count})
    body = [[kind, *(str(count[kind, status]) for status in STATUSES)] for kind in kinds]
    sums = [str(sum(count[kind, status] for kind in kinds)) for status in STATUSES]
    return _table(["", *STATUSES], [*body, ["all", *sums]])


def conflicts(shown: Shown) -> str:
    """Where documents contradict each other or what was measured."""
    rows = [
        (_link(row), row.conflict, row.default or row.out_of_scope, row.other or "—")
        for row in shown.coverage.rows
        if row.conflict
    ]
    return _table(("row", "who says what", "the default", "the other way"), rows)


def still_open(shown: Shown) -> str:
    """Rows that are neither done nor out of scope, and what is missing."""
    rows = []
    for row in shown.coverage.rows:
        status = shown.status(row)
        if status not in (DONE, OUT_OF_SCOPE):
            rows.append((_link(row), status, row.missing if status == NOT_YET else _tests(row, shown)))
    return _table(("row", "status", "what is missing"), rows) if rows else "Nothing.\n"


def tables(shown: Shown) -> str:
    """One section a topic, one line a row."""
    head = ("row", "what is described", "where", "by default", "the other way", "status", "shown by")
    made = []
    for title, rows in shown.coverage.sections:
        lines = [
            (
                f'<a id="{row.id}"></a>`{row.id}`<br>{row.kind}',
                row.says,
                ", ".join(shown.coverage.documents[key][0] for key in row.documents),
                row.default or f"left to others: {row.out_of_scope}",
                row.other or "—",
                shown.status(row),
                _tests(row, shown) or "—",
            )
            for row in rows
        ]
        made.append(f"\n### {title}\n\n{_table(head, lines)}")
    return "".join(made)


def _tests(row: Row, shown: Shown) -> str:
    """Links to the row's tests; those without a pass say how they ended."""
    links = []
    for test in shown.tests_of(row):
        file, _, name = test.partition("::")
        ended = shown.outcomes.get(test, "not run")
        note = "" if ended == "passed" else f" ({ended})"
        links.append(f"[{name.replace('::', ' ')}](../{file}){note}")
    return "<br>".join(links)


def _link(row: Row) -> str:
    return f"[`{row.id}`](#{row.id})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = chain([head, ["---"] * len(head)], rows)
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def newest() -> Shown:
    """Rows, markers and outcomes as the repository has them now."""
    return Shown(load(), scan(), read_outcomes())


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a marker names no row, or the page is not up to date and was not written."""
    shown = newest()
    if found := problems(shown):
        print("\n".join(found))
        return 1
    return write_or_check(
        argv,
        PAGE,
        lambda page: rendered(page, shown),
        "docs/coverage.md from its rows, the tests' markers and outcomes.",
        "is not what rows, markers and outcomes say: run `python -m benchmarks.pages.coverage --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
