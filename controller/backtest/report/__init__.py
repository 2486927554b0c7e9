"""The report of a backtest: page, plots, pictures, a piece of configuration."""
