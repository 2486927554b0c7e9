"""`ballast repair`: finds what is damaged in the tables, plans how to mend it, and carries that out.

In: the files of the tables, and what Kafka still has of the journal. Out: a plan in words, and mended tables. Nothing
that was committed and can be read is dropped; what a step loses, it says.
"""

from __future__ import annotations
