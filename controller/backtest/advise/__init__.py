"""What Ballast would do now on a cluster that it only observes: real rounds in shadow on recorded or live load.

In: a `Recording`, of a file or of polls just made. Out: an `Advice`: brokers, moves, splits, and why nothing else.
"""
