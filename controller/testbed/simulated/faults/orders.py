"""What people do beside the faults: operators' commands, and clients' questions for owners."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from controller.domain.ids import Bundle
from controller.testbed.simulated.deployment import BROKERS, MANY_BUNDLES, Deployment

FURTHER_SPLITS_MS = (2_500, 5_000)  # after the first one


class Orders:
    """Gives orders to a deployment. `kinds`: weight, and what each does; it returns None where it cannot."""

    def __init__(self, deployment: Deployment) -> None:
        self._at = deployment
        self.kinds: dict[str, tuple[int, Callable[[Random], str | None]]] = {
            "transfer": (8, self._transfer),
            "unload": (2, self._unload),
            "split": (2, self._split),
            "split again": (3, self._split_again),
            "drain": (1, self._drain),
            "lookups": (2, self._look_up),
        }

    def _transfer(self, dice: Random) -> str | None:
        if not self._at.bundles():
            return None
        bundle, to = dice.choice(self._at.bundles()), dice.choice(BROKERS)
        self._at.command("unload_bundle", bundle=str(bundle), to=to)
        return f"{bundle} to {to}"

    def _unload(self, dice: Random) -> str | None:
        if not self._at.bundles():
            return None
        bundle = dice.choice(self._at.bundles())
        self._at.command("unload_bundle", bundle=str(bundle))
        return str(bundle)

    def _split(self, dice: Random) -> str | None:
        if not self._at.bundles():
            return None
        bundle, unload = dice.choice(self._at.bundles()), dice.random() < 0.5
        third = bundle.lower + (bundle.upper - bundle.lower) // 3
        boundary = dice.choice((None, bundle.lower, third, bundle.middle()))
        if boundary is None:
            self._at.command("split_bundle", bundle=str(bundle), unload=unload)
            return str(bundle)
        command = self._at.command("split_bundle", bundle=str(bundle), unload=unload, boundary=boundary)
        self._at.witness.agents.boundaries[command] = boundary
        return f"{bundle} at 0x{boundary:08x}"

    def _split_again(self, dice: Random) -> str | None:
        """What the last split has made is split, and then what that has made."""
        if not self._at.bundles() or self._at.settings.split.namespace_maximum_bundles < MANY_BUNDLES:
            return None
        for after_ms in FURTHER_SPLITS_MS:
            self._at.world.after(after_ms, partial(self._split_newest, dice))
        return self._split_newest(dice)

    def _split_newest(self, dice: Random) -> str:
        newest = [Bundle.parse(name) for name in self._at.conditions.newest]
        bundle = dice.choice([one for one in newest if one in self._at.bundles()] or self._at.bundles())
        if not self._at.calm:
            self._at.command("split_bundle", bundle=str(bundle), unload=False)
        return str(bundle)

    def _drain(self, dice: Random) -> str:
        brokers = dice.sample(BROKERS, dice.choice((1, 2)))
        kind = dice.choice(("drain", "drain", "undrain"))
        for broker in brokers:
            self._at.command(kind, broker=broker)
        return f"{kind} {' '.join(brokers)}"

    def _look_up(self, dice: Random) -> str:
        self._at.ask_for_owners()
        return ""
