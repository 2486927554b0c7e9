"""Records a Pulsar cluster's load to a file of JSON lines that `backtest`, `replay-reports` and `advise` read."""
