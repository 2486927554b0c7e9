"""Pages of `docs/` that are generated: `python -m benchmarks.pages.NAME [--write]`."""
