"""The built-in providers of strategy `weighted`, and the protocol of one's own: the names that configurations give.

Classes are the very ones of `controller.policy.strategies.weighted.providers`, so that a subclass is a subclass.
"""

from __future__ import annotations

from controller.policy.strategies.weighted.providers import *  # noqa: F403
from controller.policy.strategies.weighted.providers import BUILT_IN, LoadAwarenessProvider

__all__ = ["BUILT_IN", "LoadAwarenessProvider"]
__all__ += [kind.__name__ for kind in BUILT_IN]
