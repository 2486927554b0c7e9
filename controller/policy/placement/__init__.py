"""Where a bundle may be and where it goes: isolation, anti-affinity, caps, the order of preference, repair."""
