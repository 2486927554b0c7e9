"""What every process needs of its machine: clocks, paths, logs, metrics, HTTP, set-up, spark-submit, children."""
