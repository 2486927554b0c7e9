"""What the model explores: three configurations with their bounds, what they leave out, and bugs to be planted.

A *disturbance* is anything that need not happen: a fault, a command, a deadline that fires while an answer is still
under way. Everything else may happen at any time, in any order, or never. The bound on disturbances is what makes the
exploration end soon; epochs and sessions need no bound, because only their order counts (`states.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.domain.ids import RING_END, Bundle

WHOLE = Bundle("t/n", 0, RING_END)
HALVES = WHOLE.split_at(WHOLE.middle())
FIRST_CHILD_EPOCH = 1_000  # a child's epoch is above all of its parent's

# Disturbances
LAPSE, KILL, HANG, REFUSE, LEAVE = "lapse", "kill", "hang", "refuse", "leave"
DEADLINE, RESTART, MOVE, UNLOAD, SPLIT, FAILED_SPLIT = "deadline", "restart", "move", "unload", "split", "failed split"
SNAPSHOT = "snapshot"  # costs nothing: an agent may at any time read the newest state as a whole

# Calls of the runtime, as far as they take time. Those that reach the store always do.
NO_WORK, SERVE, HOLD, RELEASE, DROP, FENCE, SPLIT_UP = range(7)
REACH_THE_STORE = frozenset({SERVE, FENCE, SPLIT_UP})


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cluster of three brokers. `owners`: who serves each bundle at first; None: the bundle does not exist yet."""

    name: str
    about: str
    bundles: tuple[Bundle, ...]
    owners: tuple[int | None, ...]
    happens: frozenset[str]
    disturbances: int
    unread: int  # journal entries about bundles that an agent has yet to read, at most
    slow: frozenset[int] = REACH_THE_STORE
    brokers: int = 3

    @property
    def splits(self) -> bool:
        """Whether bundle 0 may be split into bundles 1 and 2."""
        return None in self.owners

    @property
    def twins(self) -> tuple[int, int] | None:
        """Two bundles that no rule tells apart."""
        return None if len(self.bundles) == 1 else (len(self.bundles) - 2, len(self.bundles) - 1)

    def real_epoch(self, bundle: int, epoch: int) -> int:
        """The epoch as journal and store know it."""
        return epoch + FIRST_CHILD_EPOCH if self.splits and bundle > 0 else epoch


CONFIGURATIONS = {
    one.name: one
    for one in (
        Configuration(
            "one-bundle",
            "one bundle; leases lapse, processes die, hang, refuse and leave, the controller restarts in mid-batch",
            (WHOLE,),
            (0,),
            frozenset({LAPSE, KILL, HANG, REFUSE, LEAVE, DEADLINE, RESTART, MOVE, UNLOAD, SNAPSHOT}),
            disturbances=4,
            unread=3,
        ),
        Configuration(
            "split",
            "a bundle that is split, and its children",
            (WHOLE, *HALVES),
            (0, None, None),
            frozenset({LAPSE, KILL, DEADLINE, MOVE, SPLIT, FAILED_SPLIT}),
            disturbances=4,
            unread=4,
            slow=REACH_THE_STORE | {DROP},
        ),
        Configuration(
            "two-bundles",
            "two bundles that share sessions; no restart of the controller",
            HALVES,
            (0, 1),
            frozenset({LAPSE, KILL, DEADLINE, MOVE, UNLOAD}),
            disturbances=3,
            unread=4,
        ),
    )
}

LEFT_OUT = (
    "disturbances beyond the bound or of another configuration, and a fourth broker",
    "time outside the lease: a deadline fires whenever it likes, and no promise names a duration",
    "more than two living sessions of a broker, two living processes of one broker id, and more than one that hangs",
    "the mass-failure breaker, drained brokers, the limit on lag, pins, isolation: they only take choices away",
    "answers to earlier records, which both sides tell by their epochs; forged records, another journal's",
    "calls of the runtime that outlive their session or fail, except a split; brokers that cannot fence",
    "splits of children, the choice of a boundary, sending a half on within the batch of the split",
    "the controller's lookups, rounds and orders to Pulsar; clients and their messages",
)


@dataclass(frozen=True, slots=True)
class Bug:
    """A realistic bug, planted to see that the model finds it. `unsafe`: how the breach begins that it leads to."""

    text: str
    configuration: str
    disturbances: int
    unsafe: str


TWO_SERVERS, FORGOTTEN_FENCE, TOO_EARLY = "two servers", "an append below a fence", "served too early"
BROKEN_TABLE, STUCK = "against the table", "stuck"

BUGS = {
    "serve_before_released": Bug(
        "A grantee serves as soon as it reads `releasing`.", "one-bundle", 1, TWO_SERVERS
    ),
    "released_before_stopped": Bug(
        "An owner sends `released` before it has stopped.", "one-bundle", 1, TWO_SERVERS
    ),
    "grant_without_fence": Bug(
        "A silent owner's bundle is granted again without an order to raise the fence.", "one-bundle", 2, TWO_SERVERS
    ),
    "silent_owner_awaited": Bug(
        "A grantee is told again to wait for a silent owner, instead of raising the fence.", "one-bundle", 2, STUCK
    ),
    "silent_grantee_forgotten": Bug(
        "A grantee that does not answer in time is taken for one that does not serve.", "one-bundle", 2, TWO_SERVERS
    ),
    "owner_end_frees": Bug(
        "The end of a releasing owner frees the bundle, although the grantee may serve.", "one-bundle", 2, TWO_SERVERS
    ),
    "unload_frees": Bug(
        "An unloaded bundle is free before its owner has released it.", "one-bundle", 1, TWO_SERVERS
    ),
    "goodbye_before_drop": Bug(
        "A leaving agent deregisters while it still serves.", "one-bundle", 2, TWO_SERVERS
    ),
    "lease_from_acknowledgement": Bug(
        "The agent counts its lease from the acknowledgement of a heartbeat.", "one-bundle", 1, TWO_SERVERS
    ),
    "lease_revives": Bug(
        "A late acknowledgement renews a lease that has expired.", "one-bundle", 1, TWO_SERVERS
    ),
    "no_margin": Bug(
        "The controller ends a lease without the margin for clocks that drift.", "one-bundle", 1, TWO_SERVERS
    ),
    "restart_keeps_silence": Bug(
        "A new controller counts leases from what its predecessor heard.", "one-bundle", 1, TWO_SERVERS
    ),
    "commit_without_compare": Bug(
        "A dead controller's commit lands after its successor's.", "one-bundle", 3, BROKEN_TABLE
    ),
    "serve_without_fence": Bug(
        "Serving does not raise the store's fence.", "one-bundle", 1, FORGOTTEN_FENCE
    ),
    "fence_before_disk": Bug(
        "The store's fence is in force, and confirmed, before it is on disk.", "one-bundle", 2, FORGOTTEN_FENCE
    ),
    "orphans_wait": Bug(
        "A bundle that a session's end has freed waits for a lookup.", "one-bundle", 1, STUCK
    ),
    "child_released_beside_parent": Bug(
        "A child is released while its parent's failed split may still serve it.", "split", 3, TWO_SERVERS
    ),
}  # fmt: skip
