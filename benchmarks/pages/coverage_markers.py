"""Which tests show which rows of docs/coverage.md, according to their marker `covers("row-id", …)`.

The markers are read from the source, so no test is imported or run. A marker is a decorator of a test function, or of
a class for all of its tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from controller.process.paths import ROOT

MARKER = "covers"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class BadMarker(ValueError):
    """A marker is malformed or misplaced; the message names the file and line."""


def scan(root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Test id (`tests/unit/test_x.py::test_y`, without parameters) -> its rows, for every file in tests/."""
    found = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if MARKER in text:
            found.update(scan_file(text, str(path.relative_to(root))))
    return found


def scan_file(text: str, file: str) -> dict[str, tuple[str, ...]]:
    """Test id -> its rows, for the text of one file. Raises BadMarker for a malformed or misplaced marker."""
    tree = ast.parse(text, file)
    used = sum(_is_marker(node) for node in ast.walk(tree))
    found: dict[str, tuple[str, ...]] = {}
    above = 0
    for prefix, node, inherited, markers in _tests(tree):
        above += markers
        rows = (*inherited, *_rows_of(node, file))
        if isinstance(node, Function) and node.name.startswith("test_") and rows:
            found[f"{file}::{prefix}{node.name}"] = tuple(dict.fromkeys(rows))
    if above != used:
        raise BadMarker(f"{file}: the marker `{MARKER}` stands above functions and classes only")
    return found


def _tests(tree: ast.Module) -> Iterator[tuple[str, Function | ast.ClassDef, tuple[str, ...], int]]:
    """(prefix of the id, function or class, rows of the class around it, markers above it)."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            yield "", node, (), len(list(_markers(node)))
        if isinstance(node, ast.ClassDef):
            around = _rows_of(node, node.name)
            for inner in node.body:
                if isinstance(inner, Function):
                    yield f"{node.name}::", inner, around, len(list(_markers(inner)))


def _markers(node: Function | ast.ClassDef) -> Iterator[ast.expr]:
    for decorator in node.decorator_list:
        if _is_marker(decorator.func if isinstance(decorator, ast.Call) else decorator):
            yield decorator


def _is_marker(node: ast.AST) -> bool:
    """Whether the node is `….mark.covers` rather than another attribute of that name."""
    return isinstance(node, ast.Attribute) and node.attr == MARKER and getattr(node.value, "attr", "") == "mark"


def _rows_of(node: Function | ast.ClassDef, file: object) -> tuple[str, ...]:
    rows: list[str] = []
    for marker in _markers(node):
        arguments = marker.args if isinstance(marker, ast.Call) and not marker.keywords else []
        texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if not texts or len(texts) != len(arguments):
            raise BadMarker(f"{file}, line {marker.lineno}: `{MARKER}` takes one row id or more, as plain strings")
        rows += texts
    return tuple(rows)
