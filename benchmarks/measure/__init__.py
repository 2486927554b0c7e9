"""The benchmarks, a file each: `run(folder, quick)` returns a `Result` of figures and targets."""
