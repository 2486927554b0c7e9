"""Which metrics and labels a PromQL expression names. It reads tokens, no grammar: promtool judges the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<range>\[[^\]]*\])
      | (?P<variable>\$\w+|\$\{\w+\})
      | (?P<number>\d[\w.]*)
      | (?P<name>[A-Za-z_:][\w:]*)
      | (?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=!(){},@])
      | (?P<space>\s+)""",
    re.VERBOSE,
)
KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset"})
GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
FUNCTIONS = frozenset(
    {
        "absent", "avg", "changes", "count", "delta", "histogram_quantile", "increase", "max", "min", "rate", "sum",
        "topk", "vector",
    }
)  # fmt: skip


@dataclass
class Names:
    """`metrics`: name -> labels that its selectors match. `grouping`: labels of by, without and the like."""

    metrics: dict[str, set[str]] = field(default_factory=dict)
    grouping: set[str] = field(default_factory=set)
    values: list[tuple[str, str, str]] = field(default_factory=list)  # label, sign, value


def tokens(expression: str) -> Iterator[tuple[str, str]]:
    """Kind and text of every token. Raises ValueError at what is none."""
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ValueError(f"{expression[at : at + 20]!r} in {expression!r} is no PromQL")
        if found.lastgroup not in ("space", "comment"):
            yield str(found.lastgroup), found[0]
        at = found.end()


def names_in(expression: str) -> Names:
    """The names of an expression. Raises ValueError for an unknown function and for brackets that do not match."""
    names, found = Names(), [*tokens(expression), ("end", "")]
    metric, open_brackets, at = "", [], 0
    while at < len(found) - 1:
        (kind, text), (_, following) = found[at], found[at + 1]
        if kind == "sign" and text in "({":
            open_brackets.append(text)
        elif kind == "sign" and text in ")}" and (not open_brackets or open_brackets.pop() + text not in ("()", "{}")):
            raise ValueError(f"brackets of {expression!r} do not match")
        elif kind == "name" and open_brackets[-1:] == ["{"]:
            names.metrics[metric].add(text)
            names.values.append((text, following, found[at + 2][1][1:-1]))
        elif kind == "name" and text in GROUPING:
            end = found.index(("sign", ")"), at) if following == "(" else at
            names.grouping |= {name for kind, name in found[at + 1 : end] if kind == "name"}
            at = end
        elif kind == "name" and following in ("(", "by", "without"):
            if text not in FUNCTIONS | KEYWORDS:
                raise ValueError(f"{text} in {expression!r} is no function that is known here")
        elif kind == "name" and text not in KEYWORDS:
            metric = text
            names.metrics.setdefault(text, set())
        at += 1
    if open_brackets:
        raise ValueError(f"brackets of {expression!r} do not match")
    return names
