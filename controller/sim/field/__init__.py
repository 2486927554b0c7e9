"""The field: small clusters on which strategies are compared. What a bundle costs is known to the field alone.

In: a scenario, a player's name and a seed. Out: figures, taken on the truth. May import `decide`; draws from the seed.
"""
