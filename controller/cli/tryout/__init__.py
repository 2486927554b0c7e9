"""Commands that need no cluster: demo, simulator, backtest, decide, replay of recorded reports."""
