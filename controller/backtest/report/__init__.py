"""Writes the report of a backtest: a page, interactive plots, PNG plots and a configuration snippet."""
