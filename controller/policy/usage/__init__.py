"""What CPU goes into, learned over rounds from brokers' usage and bundles' traffic.

In: the model so far and a frame. Out: the model after it, and `Estimates` for the frame. One model serves all
strategies, whoever moves bundles. Imports `view` and `domain` only.
"""
