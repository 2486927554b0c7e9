"""Generates the golden files under tests/golden/schemas and the reference docs/tables.md.

`python -m schemas.generate` lists the files that differ (exit 1); `--write` writes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from schemas.catalog import TABLES
from schemas.delta import delta_ddl
from schemas.json_schema import json_schema
from schemas.reference import reference
from schemas.wire import RECORDS

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = "tests/golden/schemas"


def generate_files() -> dict[str, str]:
    """Every generated file: path below the repository's root -> text.

    One golden file a record, in its most complete form: JSON Schema of a wire record, DDL of a table. The Arrow and
    Spark forms follow from the same definition, and tests compare them with Spark and delta-rs. A journal entry is part
    of the feed's schema.
    """
    files = {"docs/tables.md": reference()}
    for name, record in RECORDS.items():
        if name != "journal_entry":
            files[f"{GOLDEN}/{name}.json"] = json.dumps(json_schema(record), indent=1) + "\n"
    for name, record in TABLES.items():
        files[f"{GOLDEN}/{name}.delta.sql"] = delta_ddl(record)
    return files


def stale(root: Path = ROOT) -> list[str]:
    """The paths of files that are missing, differ from what is generated, or are no longer generated."""
    files = generate_files()
    left_over = {str(path.relative_to(root)) for path in (root / GOLDEN).glob("*")} - set(files)
    differs = {path for path, text in files.items() if not _same(root / path, text)}
    return sorted(left_over | differs)


def write(root: Path = ROOT) -> list[str]:
    """Bring the files up to date; returns the paths changed."""
    files, changed = generate_files(), stale(root)
    for path in changed:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path], encoding="utf-8")
        else:
            (root / path).unlink()
    return changed


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str]) -> int:
    """The command line; returns the exit code."""
    if arguments not in ([], ["--write"]):
        print("usage: python -m schemas.generate [--write]", file=sys.stderr)
        return 2
    changed = write() if arguments else stale()
    for path in changed:
        print(f"{'wrote' if arguments else 'differs'}: {path}")
    return 1 if changed and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
