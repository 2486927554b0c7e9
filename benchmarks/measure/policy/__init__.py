"""What decides: speed of rounds and of `ballast decide`, the field of strategies, a day's backtest."""
