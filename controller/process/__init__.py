"""What every process needs from its machine: clocks, paths, logs, metrics, HTTP, set-up, spark-submit, child processes.

In: environment, files, signals. Out: ready-made services for the rooms above. Imports `domain` only.
"""
