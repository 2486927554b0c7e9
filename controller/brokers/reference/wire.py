"""What clients and the reference broker say to each other, over `store.protocol` frames.

A client numbers its producers and consumers (`ref`) per connection; every later frame names the ref.

client → broker
    producer   ref, topic, name, seq            open a producer; seq: newest journal seq the client knows of
    subscribe  ref, topic, subscription, type, name, permits, seq, latest, unconfirmed
    send       ref, first, n + packed messages  sequences first..first+n-1, in order
    flow       ref, permits                     this many more messages may be delivered
    ack        ref, id, ranges, below           offsets [low, high), or everything below an offset (not shared)
    close      ref          ·  ping
broker → client
    opened     ref, last | mark                 last: the producer name's last stored sequence, -1 for none
    sent       ref, first, offsets, duplicates  stored; duplicates: indexes of messages stored earlier
    deliver    ref, offsets, redelivered, at + packed messages; at: the broker's boot clock, ms
    acked      ref, id, refused, at             stored; refused: ranges pending with another consumer
    not_owner  ref, seq, broker, address        go there (address "" = unknown, look up with at_least=seq)
    moved      refs, bundle, seq, broker, address   the same, for refs that were open
    reopen     refs                             open again here
    refused    ref, reason, retry               retry false: do not come back
    pong

`unconfirmed` are acknowledgements sent earlier whose confirmation got lost on the way: applied before delivery.
"""

from __future__ import annotations

from enum import Enum

from controller.brokers.reference.store.records import Message

MAX_BATCH_MESSAGES = 100
MAX_BATCH_BYTES = 64 * 1024

Numbered = tuple[int, Message]  # a message with its offset


class SubscriptionType(str, Enum):
    """Who gets what of a subscription."""

    EXCLUSIVE = "exclusive"  # one consumer, a second is refused
    SHARED = "shared"  # each message to one of many, no order
    FAILOVER = "failover"  # the first consumer gets all, the next takes over when it leaves
