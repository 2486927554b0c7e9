"""The producers and consumers that clients have opened, with their state on the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.brokers.reference.store.protocol import FrameConnection

if TYPE_CHECKING:
    from controller.brokers.reference.subscription import Subscription
    from controller.brokers.reference.topic import OpenTopic


@dataclass(eq=False, slots=True)
class ProducerHandle:
    """One producer of one topic. Once `open` is False, none of its messages are stored any more."""

    connection: FrameConnection
    ref: int
    name: str
    topic: OpenTopic
    open: bool = True


@dataclass(eq=False, slots=True)
class ConsumerHandle:
    """One consumer of one subscription. Once `open` is False, nothing is delivered to it any more."""

    connection: FrameConnection
    ref: int
    name: str
    topic: OpenTopic
    subscription: Subscription
    permits: int = 0
    open: bool = True


Handle = ProducerHandle | ConsumerHandle
