"""The brokers that agents drive. `runtime.BrokerRuntime` is the protocol; a folder for each kind of broker.

In: serve, release, drop, split, fence. Out: whether it did, and samples of load.
"""
