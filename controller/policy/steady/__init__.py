"""The parts of strategy `steady`: one question each, put together in `controller/policy/strategies/steady.py`."""
