"""The brokers that agents drive: the protocol `runtime.BrokerRuntime`, and a folder for each kind of broker.

To add a kind, add a folder with a `runtime.py` that implements the protocol; `ballast agent` (`cli/run/agent.py`)
constructs it. In: calls to serve, release, drop, split and fence bundles. Out: their outcome, and load samples. Brokers
of a real Pulsar cluster are only read so far (`pulsar/`).
"""
