"""Hooks of mkdocs: pages are written for GitHub, and the site (`make docs`) has to show the same.

- Python-Markdown asks for a blank line before a list and for four spaces of indentation in an item; GitHub for neither.
- In tables GitHub takes `\\|` in code for a bar; Python-Markdown shows the backslash.
- Anchors are spelt as GitHub spells them, which is what `tests/documents` checks.
- A link that leaves `docs` leads nowhere on the site: its text stays, with the file's path as a tooltip.

Pure but for `on_config`, which mkdocs calls once. Settings are in conf/mkdocs.yml.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from typing import Any

ITEM = re.compile(r"( *)([-*]|\d+\.)( +)\S")
FENCE = re.compile(r" *(```+|~~~+)")
COMMENT = re.compile(r"<!--.*-->$")
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\[([^\]\[]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
STEP = 4  # spaces an item is indented by
OUTSIDE = ".."


def on_config(config: Any) -> Any:
    """Spell anchors as GitHub does."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page as Python-Markdown reads it."""
    return adapt(with_bars(without_outside_links(markdown, page.file.src_uri)))


def slug(title: str, separator: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def without_outside_links(text: str, page: str) -> str:
    """The text with links to files outside `docs` replaced by their words. `page`: its path in `docs`."""

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
        if not target.startswith(OUTSIDE):
            return link[0]
        path = target.removeprefix(f"{OUTSIDE}/")
        return f'<span title="{html.escape(path)}">{link[1]}</span>'

    return LINK.sub(replace, text)


def with_bars(text: str) -> str:
    """The text with `\\|` in the code of tables as HTML, so that it shows a bar."""

    def replace(code: re.Match[str]) -> str:
        if "\\|" not in code[0]:
            return code[0]
        return f"<code>{html.escape(code[0].strip('`'), quote=False).replace(chr(92) + '|', '&#124;')}</code>"

    return "\n".join(CODE.sub(replace, line) if line.startswith("|") else line for line in text.split("\n"))


def adapt(text: str) -> str:
    """GitHub's Markdown as Python-Markdown reads it: lists apart from text, items indented by four spaces."""
    return "\n".join(_adapted(text.split("\n")))


def _adapted(lines: list[str]) -> Iterator[str]:
    items: list[int] = []  # of the open list items, the column at which their text begins
    fence, before, blocks = "", "", 1  # blocks: of text, in the open item
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        item = None if fence else ITEM.match(line)
        if line.strip() and not fence and (item or not before.strip()):
            while items and indent < items[-1]:
                items.pop()
        depth, column = len(items), items[-1] if items else 0
        shifted = " " * (STEP * depth + max(indent - column, 0)) + line.lstrip(" ") if line.strip() else ""
        if not fence and _needs_blank(line, item, before, blocks):
            yield ""
        yield shifted
        if item:
            items.append(len(item[1]) + len(item[2]) + len(item[3]))
            blocks = 1
        elif not line.strip():
            blocks += 1
        if COMMENT.match(line) and not fence:
            yield ""
        if found := FENCE.match(line):
            fence = "" if fence and line.strip().startswith(fence) else fence or found[1]
        before = line


def _needs_blank(line: str, item: re.Match[str] | None, before: str, blocks: int) -> bool:
    """Whether Python-Markdown needs a blank line before this one, which GitHub does not."""
    if not before.strip() or COMMENT.match(before):
        return False
    within_item = ITEM.match(before) or (before.startswith(" ") and blocks == 1)
    return (item is not None and not within_item) or bool(COMMENT.match(line))
