"""The brokers that agents drive: the protocol `runtime.BrokerRuntime`, and a folder for each kind of broker.

To add a kind, add a folder with a `runtime.py` that implements the protocol; `ballast agent` (`cli/run/agent.py`)
constructs it. Its `authority` tells who decides ownership of its bundles; nothing depends on its `kind`. In: calls to
serve, release, drop, split and fence bundles. Out: their outcome, and load samples. Brokers of a Pulsar cluster decide
themselves, and one agent observes all of them (`pulsar/`).
"""
