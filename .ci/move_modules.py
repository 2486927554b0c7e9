"""Moves modules to other rooms and rewrites every name and path that means them. `python .ci/move_modules.py`

Reads pairs `old.dotted.name new.dotted.name` from `moved_modules.txt` beside it (`old.package.* new.package.*` for all
modules of a package). A pair whose old file is gone is done already: the script can be run again, on a branch that was
begun before the move as well. What it leaves to people: patterns like `controller/policy/{a,b}.py`, and texts that say
where something is without naming its file.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAP = Path(__file__).with_name("moved_modules.txt")
CODE = ("controller", "jobs", "schemas", "benchmarks", "tests", "notebooks")
TEXTS = (
    "docs/**/*.md",
    "*.md",
    "pyproject.toml",
    "Makefile",
    ".ci/run",
    "conf/**/*.yaml",
    "tests/scenarios/*.txt",
    "docs/*.json",
)
# Classes that users subclass and configurations name: their module stays, as another door to the same objects.
PUBLIC = "controller.policy.weighted.providers"
_DOTTED = re.compile(r"\b(?:controller|jobs|benchmarks|tests)(?:\.[A-Za-z_]\w*)+")
_PARENTS = re.compile(r"(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)\]")
_PATH = re.compile(r"\b(?:controller|jobs|benchmarks|tests)(?:/[A-Za-z_]\w*)+(?:\.py\b|/)?")


def read_pairs() -> dict[str, str]:
    """Old name -> new name of every module that still lies where it was."""
    pairs: dict[str, str] = {}
    for line in MAP.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        old, new = words
        if old.endswith(".*"):
            for file in sorted((ROOT / old[:-2].replace(".", "/")).glob("*.py")):
                if file.name != "__init__.py":
                    pairs.setdefault(f"{old[:-1]}{file.stem}", f"{new[:-1]}{file.stem}")
        else:
            pairs[old] = new
    return {old: new for old, new in pairs.items() if path_of(old).exists() and not path_of(new).exists()}


def path_of(module: str) -> Path:
    """Where a module lies."""
    return ROOT / (module.replace(".", "/") + ".py")


def packages_of(pairs: Mapping[str, str]) -> dict[str, str]:
    """Packages whose modules all went to one other package."""
    homes: dict[str, set[str]] = {}
    for old, new in pairs.items():
        homes.setdefault(old.rpartition(".")[0], set()).add(new.rpartition(".")[0])
    left = {
        package
        for package in homes
        for file in (ROOT / package.replace(".", "/")).glob("*.py")
        if file.name != "__init__.py" and f"{package}.{file.stem}" not in pairs
    }
    return {old: next(iter(new)) for old, new in homes.items() if len(new) == 1 and old not in left}


def move_files(pairs: Mapping[str, str]) -> None:
    """With `git mv`, in two steps: one module's new place may be a package that bears another one's old name."""
    for old in pairs:
        git("mv", str(path_of(old)), str(path_of(old).with_suffix(".moving")))
    for old, new in pairs.items():
        target = path_of(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        for parent in target.relative_to(ROOT).parents:
            init = ROOT / parent / "__init__.py"
            if str(parent) != "." and not init.exists():
                init.touch()
                git("add", str(init))
        git("mv", str(path_of(old).with_suffix(".moving")), str(target))


def rewrite_depths(pairs: Mapping[str, str]) -> None:
    """`Path(__file__).parents[n]` of tests that lie deeper now: their data stayed."""
    for old, new in pairs.items():
        deeper = new.count(".") - old.count(".")
        if old.startswith("tests.") and new.startswith("tests.") and deeper:
            file = path_of(new)
            file.write_text(_PARENTS.sub(partial(_deeper, by=deeper), file.read_text()))


def _deeper(found: re.Match[str], by: int) -> str:
    return f"{found[1]}{int(found[2]) + by}]"


def rewrite_imports(text: str, pairs: Mapping[str, str]) -> str:
    """`from package import module` of moved modules; the name that the file knows them by stays."""
    lines = text.splitlines(keepends=True)
    for node in sorted(_imports_of_modules(text, pairs), key=lambda node: -node.lineno):
        indent = " " * node.col_offset
        kept, moved = [], []
        for alias in node.names:
            new = pairs.get(f"{node.module}.{alias.name}")
            known_as = alias.asname or alias.name
            if new is None:
                kept.append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
                continue
            package, _, name = new.rpartition(".")
            moved.append(f"{indent}from {package} import {name}" + ("" if name == known_as else f" as {known_as}"))
        statements = [f"{indent}from {node.module} import {', '.join(kept)}"] if kept else []
        comment = re.search(r"\s*#.*$", lines[node.end_lineno - 1].rstrip("\n"))
        tail = comment.group(0) if comment else ""
        lines[node.lineno - 1 : node.end_lineno] = ["\n".join([*statements, *moved]) + tail + "\n"]
    return "".join(lines)


def _imports_of_modules(text: str, pairs: Mapping[str, str]) -> Iterator[ast.ImportFrom]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and any(f"{node.module}.{a.name}" in pairs for a in node.names):
            yield node


def rewrite_names(text: str, pairs: Mapping[str, str]) -> str:
    """Dotted names and paths, wherever they stand."""

    def dotted(found: re.Match[str]) -> str:
        words = found.group(0).split(".")
        begins = text.rfind("\n", 0, found.start()) + 1
        importing = text[begins : found.start()].lstrip().startswith(("from", "import"))
        for count in range(len(words), 1, -1):
            name = ".".join(words[:count])
            if name == PUBLIC and not importing:
                return found.group(0)
            if name in pairs:
                return ".".join([pairs[name], *words[count:]])
        return found.group(0)

    def path(found: re.Match[str]) -> str:
        whole = found.group(0)
        bare, end = (whole[:-3], ".py") if whole.endswith(".py") else (whole.rstrip("/"), "/" * whole.endswith("/"))
        new = pairs.get(bare.replace("/", "."))
        return whole if new is None or not end else new.replace(".", "/") + end

    return _PATH.sub(path, _DOTTED.sub(dotted, text))


def git(*words: str) -> None:
    """Run git in the project."""
    subprocess.run(["git", *words], cwd=ROOT, check=True)


def main() -> None:
    """Move, then rewrite."""
    modules = read_pairs()
    everything = {**packages_of(modules), **modules}
    move_files(modules)
    rewrite_depths(modules)
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            before = file.read_text()
            after = rewrite_imports(rewrite_names(before, everything), modules)
            if after != before:
                file.write_text(after)
    for pattern in TEXTS:
        for file in sorted(ROOT.glob(pattern)):
            before = file.read_text()
            after = rewrite_names(before, everything)
            if after != before:
                file.write_text(after)
    print(f"{len(modules)} modules moved")


if __name__ == "__main__":
    main()
