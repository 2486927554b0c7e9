"""The protocol between clients and the reference broker, over the frames of `store.protocol`.

A client numbers its producers and consumers per connection (`ref`); every later frame names the ref.

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
    not_owner  ref, seq, broker, address        go there (address "": unknown, look it up with at_least=seq)
    moved      refs, bundle, seq, broker, address   the same, for refs that were open
    reopen     refs                             open again here; a newer request may have taken the name
    refused    ref, reason, retry               retry false: do not try again
    pong

`unconfirmed` are earlier acknowledgements whose confirmation was lost; they are applied before delivery.
"""

from __future__ import annotations

from enum import Enum

from controller.brokers.reference.store.messages import Message

MAX_BATCH_MESSAGES = 100
MAX_BATCH_BYTES = 64 * 1024

Numbered = tuple[int, Message]  # a message with its offset


class SubscriptionType(str, Enum):
    """How the messages of a subscription are distributed."""

    EXCLUSIVE = "exclusive"  # one consumer; a second one is refused
    SHARED = "shared"  # each message to one of many consumers, without order
    FAILOVER = "failover"  # all to the first consumer; the next one takes over when it leaves
