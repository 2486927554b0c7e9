"""A Kafka cluster on this machine: several KRaft nodes, with TLS, logins and ACLs if wanted.

In: the number of nodes and users. Out: servers that outlive their starter, and files with a login for each principal.
"""
