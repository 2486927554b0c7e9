"""Write every generated form: golden files under tests/golden/schemas and the reference docs/tables.md.

`python -m schemas.generate` tells which files differ (exit 1); `--write` writes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from schemas.arrow import arrow_schema
from schemas.catalog import RECORDS, TABLES
from schemas.delta import delta_ddl
from schemas.json_schema import json_schema
from schemas.reference import reference
from schemas.spark import spark_ddl, spark_struct

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = "tests/golden/schemas"


def generated() -> dict[str, str]:
    """Every generated file: path below the repository's root -> text."""
    files = {"docs/tables.md": reference()}
    for name, record in RECORDS.items():
        files[f"{GOLDEN}/{name}.json"] = _json(json_schema(record))
    for name, record in {**RECORDS, **TABLES}.items():
        files[f"{GOLDEN}/{name}.arrow.txt"] = str(arrow_schema(record)) + "\n"
        files[f"{GOLDEN}/{name}.spark.ddl"] = spark_ddl(record) + "\n"
        files[f"{GOLDEN}/{name}.spark.json"] = _json(spark_struct(record))
    for name, record in TABLES.items():
        files[f"{GOLDEN}/{name}.delta.sql"] = delta_ddl(record)
    return files


def stale(root: Path = ROOT) -> list[str]:
    """Paths whose file is missing, differs from what is generated, or is generated no more."""
    files = generated()
    left_over = {str(path.relative_to(root)) for path in (root / GOLDEN).glob("*")} - set(files)
    differs = {path for path, text in files.items() if not _same(root / path, text)}
    return sorted(left_over | differs)


def write(root: Path = ROOT) -> list[str]:
    """Bring the files up to date; returns the paths changed."""
    files, changed = generated(), stale(root)
    for path in changed:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path], encoding="utf-8")
        else:
            (root / path).unlink()
    return changed


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _json(document: object) -> str:
    return json.dumps(document, indent=1) + "\n"


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
