"""Who may ask a process over HTTP, and how Ballast's own clients ask: tokens, TLS, open endpoints (docs/security.md).

In: plain values and files. Out: `HttpAccess`, which servers enforce and clients send. No secret is in a message, a repr
or a log line.
"""
