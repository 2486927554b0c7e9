"""Spares a process that starts, answers and ends what costs it time and brings it nothing. For the command line."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

DOC_PARSER = "pyarrow.vendored.docscrape"
_own_process: list[bool] = []


def import_quickly(module: str) -> ModuleType:
    """Import what a command needs, in a process that is the command's own, and settle it.

    Of the many objects that imports make none is garbage. Arrow parses the documentation of all its functions' options,
    to document the functions in turn: 0.02 s for what no command reads. Here it finds nothing in them.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # it would read every package's metadata to find them
    gc.disable()
    try:
        with _without_documentation():
            return importlib.import_module(module)
    except AttributeError:  # an Arrow that asks more of its parser; any other cause fails again
        return importlib.import_module(module)
    finally:
        settle_imports()
        gc.enable()


@contextmanager
def _without_documentation() -> Iterator[None]:
    """Arrow's parser of documentation finds nothing, unless it has been imported before."""
    if DOC_PARSER in sys.modules:
        yield
        return
    sys.modules[DOC_PARSER] = _parser_of_nothing()
    try:
        yield
    finally:
        del sys.modules[DOC_PARSER]


def _parser_of_nothing() -> ModuleType:
    parser = ModuleType(DOC_PARSER)
    vars(parser)["NumpyDocString"] = lambda text: {"Parameters": []}
    return parser


def settle_imports() -> None:
    """Call this when a process that is a command's own has imported what the command needs.

    Arrow imports pandas at the first list that it converts, 0.15 s, only to see whether the list is a series of it. It
    does so once in a process: here, where it finds none. It looks again when it is to convert from or to pandas. The
    garbage collector need not go through the modules again and again.
    """
    _own_process[:] = [True]
    gc.freeze()
    arrow = sys.modules.get("pyarrow")
    if arrow is None or "pandas" in sys.modules:
        return
    hidden = _HiddenPandas()
    sys.meta_path.insert(0, hidden)
    try:
        arrow.array([0])
    finally:
        sys.meta_path.remove(hidden)


def settle_more_imports() -> None:
    """Call this when a command has imported more, because it had to: again, if the process is its own."""
    if _own_process:
        settle_imports()


class _HiddenPandas:
    """Makes the import of pandas fail, as if it were not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Leave every other module to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)
