"""Prints the output of commands: one JSON document, or tables that are easy to read and to copy from.

Ids are never truncated: on a terminal that is too narrow for a table, each row becomes lines of named values; piped
output is as wide as necessary. Times are UTC; durations and rates have units.
"""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from controller.operations.text import duration_text as duration_text
from controller.operations.text import percent_text as percent_text
from controller.operations.text import rate_text as rate_text
from controller.operations.text import time_text as time_text

if TYPE_CHECKING:  # rich takes its time to import: only tables and terminals need it
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

_WIDE = 100_000
_WRAPPED = 100  # characters of a column that wraps, however wide the terminal
RIGHT = "right"
_FORCED = ("FORCE_COLOR", "TTY_COMPATIBLE")  # with these rich may take a pipe for a terminal


def emit_json(document: Any) -> None:
    """Print a document as one line. Values that JSON lacks become text, NaN becomes null."""
    typer.echo(json.dumps(_json_value(document), default=str, allow_nan=False, ensure_ascii=False))


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", empty: str = "") -> None:
    """Print a table without lines. Columns named `… >` are right-aligned, columns that end in ` …` wrap."""
    given = list(rows)
    if not given:
        typer.echo(empty or "nothing to show")
        return
    terminal = _terminal()
    if terminal is None:
        typer.echo("\n".join(_lay_out(columns, given, title)))
        return
    table = _make_table(columns, given, title)
    if _width(table, terminal).minimum <= terminal.width:
        terminal.print(table, crop=False)
        return
    names = [str(column.header) for column in table.columns]
    typer.echo("\n".join([*_wrap(title, terminal.width), *pack_rows(names, given, terminal.width)]))


def _lay_out(columns: Sequence[str], given: Sequence[Sequence[Any]], title: str) -> list[str]:
    """The lines of a table for a pipe, which may have thousands of rows."""
    from tabulate import tabulate

    names = [column.removesuffix(" …").removesuffix(" >") for column in columns]
    text = tabulate(
        [[_cell(value) for value in row] for row in given],
        names,
        tablefmt="plain",
        colalign=["right" if column.endswith(" >") else "left" for column in columns],
        disable_numparse=True,
        preserve_whitespace=True,
        maxcolwidths=[_WRAPPED if column.endswith(" …") else None for column in columns],
        break_long_words=False,
    )
    return [*([title] if title else []), *(line.rstrip() for line in text.splitlines())]


def fits(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Whether `emit_table` prints these rows as a table: always, unless the terminal is too narrow."""
    console = _terminal()
    return console is None or _width(_make_table(columns, rows), console).minimum <= console.width


def _terminal() -> Console | None:
    """The terminal that stdout is; None if it is none."""
    if not sys.stdout.isatty() and not any(os.environ.get(name) for name in _FORCED):
        return None
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else None


def _width(table: Table, console: Console) -> Measurement:
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(width=_WIDE), table)


def _make_table(columns: Sequence[str], given: Sequence[Sequence[Any]], title: str = "") -> Table:
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        name, wraps, right = column.removesuffix(" …").removesuffix(" >"), column.endswith(" …"), column.endswith(" >")
        table.add_column(
            name,
            no_wrap=not wraps,
            overflow="fold",
            justify="right" if right else "left",
            header_style="bold",
            # otherwise rich shrinks columns that do not wrap to their longest word and truncates the rest
            min_width=None if wraps else max([cell_len(name), *(cell_len(_cell(row[number])) for row in given)]),
            max_width=_WRAPPED if wraps else None,
        )
    for row in given:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def pack_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], width: int) -> Iterator[str]:
    """Lines of a table for a narrow terminal: the first value of each row, below it `name value` pairs that fit."""
    for first, *others in rows:
        yield _cell(first)
        line = ""
        for name, value in zip(names[1:], others, strict=True):
            if _blank(value):
                continue
            piece = f"  {name} {value}"
            if line and len(line) + len(piece) > width:
                yield line
                line = ""
            line += piece
            if len(line) > width:
                yield from _wrap(line, width, "    ")
                line = ""
        if line:
            yield line


def emit_text(text: str) -> None:
    """Print a sentence, wrapped between words on a terminal."""
    terminal = _terminal()
    typer.echo(text if terminal is None else "\n".join(_wrap(text, terminal.width)))


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap between words only, so that ids stay whole."""
    return textwrap.wrap(text, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _cell(value: Any) -> str:
    return "-" if _blank(value) else str(value)


def _blank(value: Any) -> bool:
    return value is None or value == ""


def emit_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line, values aligned; on a terminal long values are wrapped."""
    pairs = [(name, str(value)) for name, value in facts if value is not None]
    width = max(len(name) for name, _ in pairs)
    terminal = _terminal()
    room = terminal.width - width - 2 if terminal is not None else _WIDE
    for name, value in pairs:
        typer.echo(
            f"{name:<{width}}  " + f"\n{'':{width}}  ".join(_wrap(value, room) if len(value) > room else [value])
        )


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
