"""YAML as Ballast reads it: plain values, unique keys, bounded nesting, and errors of YAML's own kind only.

PyYAML raises whatever Python raises where text looks like a date, a number in base two, or a tag it cannot apply. And a
few lines of references to references name more values than any memory holds: what a document expands to is counted
before it is made.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from controller.domain.errors import shown

MAX_CHARS = 262_144  # of a file, and of what it expands to: PyYAML takes a second for them
MAX_DEPTH = 40  # of nesting
MAX_BITS = 1_024  # of a whole number; a number with a point has as many


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which YAML would silently keep the last, and what is too deep or expands too far."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            where = parent.start_mark if parent is not None else None
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", where)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_document(self, node: yaml.Node) -> Any:
        _Size().check(node)
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            found = super().construct_object(node, deep)
            if isinstance(found, int) and found.bit_length() > MAX_BITS:  # Python would not write it down
                raise OverflowError
            return found
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
            what = f"{shown(node.value)} is no {node.tag.rpartition(':')[2]}"
            problem = f"{what}: put it in quotes if it is text" if isinstance(node, yaml.ScalarNode) else what
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if name is None or name in seen:
                problem = (
                    "a list or mapping stands where a name is expected" if name is None else f"{name} is given twice"
                )
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


class _Size:
    """How many characters and values a node expands to; each node is counted once, however often it is named."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}  # by node; None while it is being counted

    def check(self, node: yaml.Node) -> None:
        """Raise ConstructorError for a node that expands too far, or that contains itself."""
        size = self._of(node)
        if size > MAX_CHARS:
            problem = f"its references name more than {MAX_CHARS} characters"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    def _of(self, node: yaml.Node) -> int:
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise yaml.constructor.ConstructorError(None, None, "it contains itself", node.start_mark)
            return known
        self._known[id(node)] = None
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        size = 1 + (len(inner) if isinstance(node, yaml.ScalarNode) else sum(map(self._of, inner)))
        self._known[id(node)] = size
        return size


def parse_yaml(text: str) -> Any:
    """The document in a text. Raises yaml.YAMLError, and nothing else."""
    if len(text) > MAX_CHARS:
        raise yaml.YAMLError(f"{len(text)} characters, at most {MAX_CHARS}")
    return yaml.load(text, _Loader)


def yaml_value(text: str) -> object:
    """The YAML value of a line of text; the text itself if it is no YAML."""
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text
