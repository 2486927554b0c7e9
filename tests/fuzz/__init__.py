"""Hostile input: every parser of what comes from outside, on valid records that were changed, cut, inflated or forged.

What holds for each parser: nothing but its own named error leaves it; the error is one short line; memory and CPU stay
in proportion to the input; what it accepts can be written down and read again; what comes after a bad record is read.
`hostile` makes the input, `limits` measures. The parsers of each family have a file of their own.
"""
