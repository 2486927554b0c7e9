"""The documentation as a site: every page is in a menu, it builds without a warning, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from benchmarks.pages.site_markdown import adapt, slug, with_bars, without_outside_links
from controller.process.paths import ROOT

DOCS = ROOT / "docs"
CONF = ROOT / "conf" / "mkdocs.yml"
SVG = "{http://www.w3.org/2000/svg}"


def listed(nav: Any) -> Iterator[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(part)


def test_every_page_is_in_a_menu_once_and_every_decision_in_the_list() -> None:
    found = sorted(listed(yaml.safe_load(CONF.read_text())["nav"]))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    decisions = {page for page in pages if re.match(r"decisions/\d", page)}
    assert found == sorted(pages - decisions)
    rows = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((\d+-.*)\) \|$", (DOCS / "decisions/README.md").read_text(), re.MULTILINE
    )
    assert [f"decisions/{file}" for _, _, file in rows] == sorted(decisions)
    for number, title, file in rows:
        assert (DOCS / "decisions" / file).read_text().startswith(f"# {number}. {title}\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(CONF),
        "--site-dir",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_loads_nothing_from_a_network(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    for page in pages:
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        assert not [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style.name


def test_lists_tables_and_code_are_rendered_as_such(site: Path) -> None:
    """What Python-Markdown did not take for a list, a table or a block stays in a paragraph."""
    for page in sorted(site.rglob("*.html")):
        article = re.search(r"<article.*?</article>", page.read_text(), re.DOTALL)
        text = article[0] if article else ""
        left = [p for p in re.findall(r"<p>(.*?)</p>", text, re.DOTALL) if re.search(r"^(- |\d+\. |```|\|)", p, re.M)]
        assert left == [], page.name
        assert not re.search(r"<code>[^<]*\\\|", text), page.name


def test_a_link_out_of_the_pages_becomes_its_words(site: Path) -> None:
    coverage = (site / "coverage.html").read_text()
    assert "../tests/" not in coverage
    assert '<span title="tests/component/test_scenarios.py">test_scenario</span>' in coverage


def test_markdown_of_github_is_adapted() -> None:
    listed = "Text:\n- one\n  goes on\n- two\n\nAfter.\n\n1. first\n   - inner\n2. second\n"
    assert adapt(listed) == ("Text:\n\n- one\n    goes on\n- two\n\nAfter.\n\n1. first\n    - inner\n2. second\n")
    fenced = "1. first\n\n   ```sh\n   - no list\n   ```\n\n   More.\n2. second\n"
    assert adapt(fenced) == "1. first\n\n    ```sh\n    - no list\n    ```\n\n    More.\n\n2. second\n"
    assert adapt("<!-- generated: x -->\n| a |\n<!-- end -->") == "<!-- generated: x -->\n\n| a |\n\n<!-- end -->\n"
    assert adapt("```\n<!-- x -->\n- a\ntext\n- b\n```") == "```\n<!-- x -->\n- a\ntext\n- b\n```"


def test_anchors_are_spelt_as_on_github() -> None:
    assert slug("`headroom` (also called `first`)", "-") == "headroom-also-called-first"
    assert slug("Who may read, and who may act", "-") == "who-may-read-and-who-may-act"
    assert slug("Kafka - what is open", "-") == "kafka---what-is-open"


def test_only_links_that_leave_the_pages_are_replaced() -> None:
    text = "[a](b.md#c), [d](../x.md), [e](https://f.g/../h), ![i](images/j.svg), [k](#l)"
    assert without_outside_links(text, "guides/m.md") == text
    assert without_outside_links("[d](../../tests/x.py)", "guides/m.md") == '<span title="tests/x.py">d</span>'
    assert without_outside_links("[d](../tests/x.py)", "m.md") == '<span title="tests/x.py">d</span>'


def test_bars_in_the_code_of_tables() -> None:
    assert with_bars("| `a\\|<b>` | `c` |") == "| <code>a&#124;&lt;b&gt;</code> | `c` |"
    assert with_bars("`a\\|b`") == "`a\\|b`"


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*.svg")), ids=lambda picture: picture.name)
def test_pictures_are_seen_in_light_and_dark_and_told_in_words(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.tag == f"{SVG}svg"
    told = [root.find(f"{SVG}{tag}") for tag in ("title", "desc")]
    assert all(element is not None and element.text for element in told)
    first = root.find(f"{SVG}rect")
    assert first is not None
    assert first.get("class") == "paper", "a background of its own"
    text = picture.read_text()
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    assert {".paper", ".box", "text", ".line"} <= set(re.findall(r"[.\w]+(?= \{|, )", light.split("<style>")[1]))
    assert ".paper" in dark
    assert not re.search(r"(?:href|src)=|@import|<script", text)
    used = set(re.findall(r'class="([\w ]+)"', text))
    assert {name for names in used for name in names.split()} <= set(re.findall(r"\.(\w+)", light + dark))
