"""What the jobs use of a SparkContext beyond its typed interface: the py4j gateway, and scheduler pools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext


def gateway_of(context: SparkContext) -> Any:
    """The py4j gateway to the JVM. It is untyped, and set as soon as there is a context."""
    return context._gateway


@contextmanager
def scheduler_pool(context: SparkContext, pool: str) -> Iterator[None]:
    """Queries started inside run their jobs in this pool of Spark's fair scheduler."""
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        yield
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]  # None unsets it
