"""A command that only reads keeps pandas out of Arrow, and out of nothing else."""

from __future__ import annotations

import subprocess
import sys

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
