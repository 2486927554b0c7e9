"""Where a bundle may be, and where one that nobody owns goes.

In: a snapshot and the settings; out: `*_block` arrays, tables of rules, a broker for a bundle. Imports `view`.
"""
