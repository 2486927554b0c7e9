"""The one definition of every record that crosses a process: wire records and Delta tables.

`schemas.catalog` lists them; their JSON Schema, Arrow, Spark and Delta forms are generated. Imports `controller.domain`
only.
"""

from __future__ import annotations
