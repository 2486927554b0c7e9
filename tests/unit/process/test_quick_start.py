"""A command that only reads keeps what it does not need out of Arrow, and out of nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import pyarrow as pa
from controller.process.quick_start import settle_imports
settle_imports()
table = pa.table({"a": pa.array([1, 2]), "b": ["x", None]})
import pyarrow.dataset
print("pandas" in sys.modules, table.to_pylist()[1])
import pandas
frame = pandas.DataFrame({"a": [1, 2]})
print(len(table.to_pandas()), len(pa.Table.from_pandas(frame)))
"""


def test_arrow_converts_lists_without_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False {'a': 2, 'b': None}", "2 2"]


def test_without_arrow_it_imports_nothing() -> None:
    code = "import sys; from controller.process.quick_start import settle_imports; settle_imports(); "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print({{'pyarrow', 'pandas'}} & sys.modules.keys())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "set()"


QUICKLY = """
import sys, types
from controller.process import quick_start
{before}
module = quick_start.import_quickly("pyarrow.compute")
print(module.sum([1, 2]), module.sort_indices([2, 1], options=module.SortOptions()).to_pylist())
print("Parameters" in module.sort_indices.__doc__, "null_placement" in module.sort_indices.__doc__)
from pyarrow.vendored import docscrape
print(docscrape.__name__, hasattr(docscrape, "Reader"))
"""


@pytest.mark.parametrize(
    ("before", "documented"),
    [
        ("", False),
        ("import pyarrow.compute", True),
        ("quick_start._parser_of_nothing = lambda: types.ModuleType(quick_start.DOC_PARSER)", True),
    ],
    ids=["quickly", "imported before", "an Arrow that asks for more"],
)
def test_arrow_parses_no_documentation_for_a_command_and_leaves_its_parser_to_others(
    before: str, documented: bool
) -> None:
    code = QUICKLY.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "3 [1, 0]",
        f"True {documented}",
        "pyarrow.vendored.docscrape True",
    ]
