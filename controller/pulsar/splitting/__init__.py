"""Which bundles are split, and where."""
