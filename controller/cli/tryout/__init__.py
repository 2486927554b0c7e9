"""Commands that try something out without a cluster of one's own: demo, simulator, backtest, decide, replay."""
