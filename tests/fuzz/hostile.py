"""Hostile records: valid ones in which places were changed, and then their bytes.

A record is a tree of what JSON has, with two things that no honest writer makes: `Raw` text that stands as it is, and
`Pairs`, an object whose keys may stand twice. Sizes stay small enough for a thousand examples a minute; what is only
hostile by its size is inflated now and then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

LONG = 30_000  # characters of a long text, entries of a long list
DEEP = 60_000  # levels
TWINS = ("plumless", "buckeroo")  # one CRC-32, whatever stands before and after them


class Raw(str):
    """Text that stands in the document as it is."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object as its pairs."""


NUMBERS: st.SearchStrategy[Any] = (
    st.integers(-3, 300)
    | st.integers()
    | st.floats()
    | st.sampled_from([-1, 0, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**300])
    | st.sampled_from([1e308, 5e-324, -0.0, 1e15, float("nan"), float("inf"), float("-inf"), 1.5, 1e300])
)
TEXTS: st.SearchStrategy[Any] = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["", " ", "\x00", "\x1b[31m", "\u202eevil", "a\u2028b", "\x85", "\ufeff", "\ud800", "é😀", "²", "٣", "0", "-1",
     "1e9", "NaN", "true", "null", "../../etc/passwd", "'; DROP TABLE journal; --", "{}", "%s%n", "a\nb", "a:1",
     "a:1\n",
     "t/n/0x00000000_0xffffffff", "t/n/0x00000000_0xffffffff\n", "t/n/0x80000000_0x40000000", "t/n/0x0_0x1",
     "t\x00/n\x1b/0x00000000_0xffffffff", "persistent://t/n/x\n", *(f"persistent://t/n/{twin}" for twin in TWINS)]
)  # fmt: skip
SPOILERS = st.sampled_from(
    ["\n", " ", "\x00", "\x1b", "\u2028", "\x85", "\ud800", "\u202e", "²", "٣", "é", "/", ".", ":", "0"]
)
LONG_TEXTS = st.sampled_from(["x" * LONG, "é" * LONG, "\x00" * LONG, "9" * LONG, "{" * LONG, "t/" + "n" * LONG])
TOKENS = st.sampled_from(
    [Raw(token) for token in (
        "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1E+400", "1e-400", "-0", "01", "+1", "1.", ".5", "0x10",
        "tru",
        "'x'", "nulll", "", "1" * 5_000, "-" + "9" * 400, "1." + "0" * 5_000, '"\\ud800"', '"\\x"', '"\\u00"', '"open',
        "{", "]", '{"a":1,"a":2}', '{"a":1,}', "[1,]", "//", "\x00", "[" * DEEP, '{"a":' * DEEP, "[[" * 9 + "]]" * 9,
        "[" * 120 + "]" * 120, "[" * 900 + "]" * 900, "[" * DEEP + "]" * DEEP, '{"a":' * 900 + "1" + "}" * 900,
    )]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
HOSTILE = VALUES | TOKENS | NUMBERS | TEXTS


@st.composite
def trees(draw: st.DrawFn, valid: Sequence[Any], values: st.SearchStrategy[Any] = HOSTILE) -> Any:
    """Hostile trees made from these valid ones."""
    return change(draw, valid, values)


def change(draw: st.DrawFn, valid: Sequence[Any], values: st.SearchStrategy[Any] = HOSTILE) -> Any:
    """One of the valid records with up to three places changed; now and then as it is."""
    tree = _one_of(draw, valid)
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2, 3]))):
        places = list(_places(tree))
        tree = _changed(draw, tree, _one_of(draw, places), values)
    return tree


def _one_of(draw: st.DrawFn, choices: Sequence[Any]) -> Any:
    """As `sampled_from`, which would write every choice down, however long it is."""
    return choices[draw(st.integers(0, len(choices) - 1))]


def _places(tree: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a tree, itself first; of long lists the first few."""
    yield here
    if isinstance(tree, dict):
        for key, inner in list(tree.items())[:40]:
            yield from _places(inner, (*here, key))
    elif isinstance(tree, list) and not isinstance(tree, Pairs):
        for at, inner in enumerate(tree[:4]):
            yield from _places(inner, (*here, at))


def _changed(draw: st.DrawFn, tree: Any, path: tuple[Any, ...], values: st.SearchStrategy[Any]) -> Any:
    if path:
        step, *rest = path
        if isinstance(tree, dict):
            if not rest and draw(st.booleans()):
                return _rewritten(draw, tree, step, values)
            return {**tree, step: _changed(draw, tree[step], tuple(rest), values)}
        return [*tree[:step], _changed(draw, tree[step], tuple(rest), values), *tree[step + 1 :]]
    how = draw(st.sampled_from(["value", "value", "spoil", "spoil", "wrap", "retype", "inflate"]))
    if how == "wrap":
        return _one_of(draw, [[tree], {"value": tree}, [tree, tree], {}, []])
    if how == "retype":  # another type of the same look
        return str(tree)[:200] if not isinstance(tree, str) else draw(NUMBERS)
    if how == "spoil" and isinstance(tree, str | int | float):
        return _spoiled(draw, tree)
    return _inflated(draw, tree) if how == "inflate" and draw(st.integers(0, 3)) == 0 else draw(values)


def _rewritten(draw: st.DrawFn, tree: dict[str, Any], key: str, values: st.SearchStrategy[Any]) -> Any:
    """An object in which this key is missing, has another name, stands beside an unknown one, or stands twice."""
    how = draw(st.sampled_from(["drop", "drop", "rename", "respell", "more", "twice"]))
    pairs = [pair for pair in tree.items() if how not in ("drop", "rename", "respell") or pair[0] != key]
    if how in ("rename", "respell"):
        pairs.append((draw(TEXTS) if how == "rename" else _spoiled(draw, key), tree[key]))
    elif how == "more":
        pairs.append((draw(TEXTS), draw(values)))
    elif how == "twice":
        return Pairs([*pairs, (key, draw(values | st.just(tree[key])))])
    return dict(pairs)


def _spoiled(draw: st.DrawFn, value: Any) -> Any:
    """Nearly the value."""
    if isinstance(value, str):
        at = _one_of(draw, [0, len(value) // 2, len(value)])
        return _one_of(draw, [value[:at] + draw(SPOILERS) + value[at:], value.upper(), value[1:], value + value])
    whole = [-value, value + 1, value - 1, value * 2**32]
    return _one_of(draw, whole if abs(value) > 1e200 else [*whole, value * 10.0**20, value + 0.5, float(value)])


def _inflated(draw: st.DrawFn, tree: Any) -> Any:
    if isinstance(tree, list) and tree:
        return tree * (LONG // 10 // len(tree))
    if isinstance(tree, dict) and tree:
        some = next(iter(tree.values()))
        return {**tree, **{f"k{n}": some for n in range(LONG // 10)}}
    return draw(LONG_TEXTS)


def write(tree: Any, ascii_only: bool = True) -> str:
    """The tree as JSON text, as far as it is any."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, Pairs | dict):
        pairs = tree if isinstance(tree, Pairs) else tree.items()
        return "{" + ",".join(f"{_plain(str(k), ascii_only)}:{write(v, ascii_only)}" for k, v in pairs) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(write(inner, ascii_only) for inner in tree) + "]"
    return _plain(tree, ascii_only)


def _plain(value: Any, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only)


_MANGLES = st.sampled_from(["as it is"] * 10 + ["utf-16", "utf-8-sig", "cut", "flip", "put", "after", "repeat"])


def mangle(draw: st.DrawFn, text: str) -> bytes:
    """The bytes of a text: mostly as they are; else in another encoding, cut, flipped, or with bytes put in."""
    how = draw(_MANGLES)
    if how in ("utf-16", "utf-8-sig"):
        return text.encode(how, "surrogatepass")
    raw = text.encode("utf-8", "surrogatepass")
    at = draw(st.integers(0, max(len(raw) - 1, 0)))
    if how == "cut":
        return raw[:at]
    if how == "flip" and raw:
        return raw[:at] + bytes([raw[at] ^ draw(st.integers(1, 255))]) + raw[at + 1 :]
    if how == "put":
        return raw[:at] + draw(st.binary(max_size=6)) + raw[at:]
    if how == "after":
        return raw + draw(st.binary(max_size=6))
    return raw + raw if how == "repeat" else raw


@st.composite
def records(draw: st.DrawFn, valid: Sequence[Any], values: st.SearchStrategy[Any] = HOSTILE) -> bytes:
    """The bytes of one hostile JSON record, made from a valid one."""
    tree = change(draw, valid, values)
    return mangle(draw, write(tree, ascii_only=draw(st.booleans())))
