"""`ballast decide`: one line of loads in, one line of decisions out.

In: a parsed line. Out: decisions. A session keeps what a strategy remembers between lines. May import `policy`.
"""
