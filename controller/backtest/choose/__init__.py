"""Which point to recommend, by which rule, and how sure that is."""
