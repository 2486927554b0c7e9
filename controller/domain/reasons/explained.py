"""What a reason code means, for people: the type of the table's rows."""

from __future__ import annotations

from typing import NamedTuple

NO_ACTION = "Nothing."
BROKER_CAPS = ("broker.max_topics", "broker.max_bundles", "broker.max_memory", "broker.max_net_usage")


class Explained(NamedTuple):
    """One reason: the words shown beside the code, its meaning, what an operator can do, and the keys that matter.

    `words` go from the most specific to the plainest: the first whose figures are all in the evidence is shown, and the
    last needs none (`controller.domain.reasons.words`). `keys` are configuration keys that change the outcome.
    `pulsar`: the name that Pulsar's strategies give to the reason.
    """

    words: tuple[str, ...]
    meaning: str
    act: str
    keys: tuple[str, ...] = ()
    pulsar: str = ""
