"""The operators' page: `ballast ui` serves one static front end and small JSON documents about the tables.

In: the Delta tables, followed once for all users; requests of browsers. Out: documents, changes as server-sent events,
and operators' commands with the name of a person and a reason. May import everything below the command line and the
testbed. No JVM; Kafka only to ask for the controller and to send a command.
"""
