"""docs/sql.md and docs/sql_duckdb.md as tests see them: the preparation and the ten numbered queries of a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PLACE = "/srv/ballast/tables"  # where both pages say that the tables lie


@dataclass(frozen=True)
class SqlPage:
    """`setup`: the SQL before the first query. `queries`: number -> text. `headings`: number -> heading."""

    setup: str
    queries: dict[str, str]
    headings: dict[str, str]
    python: str

    @classmethod
    def read(cls, path: Path) -> SqlPage:
        """The page's blocks. A page has one block of preparation, and one a numbered heading."""
        setups, queries, headings = [], {}, {}
        text = path.read_text()
        for part in re.split(r"(?m)^(?=## )", text):
            heading = part.splitlines()[0].removeprefix("## ")
            blocks = re.findall(r"```sql\n(.*?)```", part, re.S)
            if heading[:1].isdigit():
                number = heading.split(".")[0]
                (queries[number],) = blocks
                headings[number] = heading
            else:
                setups += blocks
        (setup,) = setups
        return cls(setup, queries, headings, "".join(re.findall(r"```python\n(.*?)```", text, re.S)))
