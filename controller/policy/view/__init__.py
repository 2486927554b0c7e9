"""What a strategy sees. In: the journal's state and load averages; out: a `Snapshot`. Imports domain and pulsar only.

`tabulate` (tables) → `frame` (integers, stored) → `snapshot` (arrays, with `costs` of bundles).
"""
