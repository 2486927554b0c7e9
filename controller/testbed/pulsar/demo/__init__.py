"""`ballast pulsar demo`: a real Pulsar cluster, real clients, and Ballast that first watches and then acts.

In: a folder. Out: figures of balance from the journal, and of losses and gaps from the clients.
"""
