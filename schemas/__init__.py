"""One definition of every record that crosses a process: wire records and Delta tables.

`schemas.catalog` lists them; JSON Schema, Arrow, Spark and Delta forms are generated from the one definition.
"""

from __future__ import annotations
