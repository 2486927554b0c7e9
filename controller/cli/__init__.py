"""The command line `ballast`. One module a command, grouped by what it is for.

In: what was typed. Out: text or one JSON document on stdout, refusals in one line on stderr. May import everything in
`controller`; commands import their heavy parts only when they are called.
"""
