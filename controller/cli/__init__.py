"""The command line `ballast`: one module per command, grouped by purpose.

In: what the user typed. Out: text or one JSON document on stdout, errors as one line on stderr. May import everything
in `controller`; a command's heavy imports happen only when it runs.
"""
