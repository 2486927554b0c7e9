"""A real Apache Pulsar cluster on this machine, from the release: to try Ballast on, and to test it with.

In: a folder and a `ClusterSpec`. Out: ZooKeeper, one bookie and brokers as processes on loopback, that outlive the
command that started them and can be stopped, killed and paused one by one. Entry point: `cluster.PulsarCluster`.
"""
