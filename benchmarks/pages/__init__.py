"""The generated pages in `docs/`: `python -m benchmarks.pages.NAME [--write]`."""
