"""`python -m controller.sim.model`: explores the configurations of the ownership protocol, or one of them.

Prints what was checked, how many states there were, and what the model leaves out. With `--plant BUG` a bug is planted
and the trace to what it breaks is printed. Exits with 1 if anything was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from controller.domain.ownership import TRANSITIONS
from controller.sim.model.check import Checked, check
from controller.sim.model.configuration import BUGS, CONFIGURATIONS, LEFT_OUT

TABLE = frozenset((before, after) for before, states in TRANSITIONS.items() for after in states)


def main(argv: Sequence[str] | None = None) -> int:
    """Check what was asked for."""
    given = _arguments(argv)
    if given.plant:
        planted = BUGS[given.plant]
        print(f"planted: {planted.text}")
        disturbances = planted.disturbances if given.disturbances is None else given.disturbances
        return 1 if _check(given.config or planted.configuration, disturbances, given.plant).breach else 0
    names = [given.config] if given.config else list(CONFIGURATIONS)
    every = [_check(name, given.disturbances) for name in names]
    never = sorted(f"{a.value} → {b.value}" for a, b in TABLE.difference(*(checked.taken for checked in every)))
    print(f"never taken: {', '.join(never) or 'no transition of the table'}")
    print("left out:\n" + "\n".join(f"- {text}" for text in LEFT_OUT))
    return 1 if any(checked.breach for checked in every) else 0


def _check(name: str, disturbances: int | None, bug: str = "") -> Checked:
    began_s = time.monotonic()
    checked = check(CONFIGURATIONS[name], disturbances, bug)
    print("\n".join(_tell(checked, time.monotonic() - began_s)), flush=True)
    return checked


def _tell(checked: Checked, took_s: float) -> list[str]:
    one, lease, ownership = checked.configuration, checked.lease, checked.ownership
    lines = [
        f"{one.name}: {one.about}",
        f"  bounds: {one.brokers} brokers, {one.disturbances} disturbances ({', '.join(sorted(one.happens))}), "
        f"{one.unread} unread entries a broker, 2 living sessions a broker",
        f"  lease: {lease.states:,} states, depth {lease.depth}: {lease.breach or 'it expires for the agent first'}",
        f"  ownership: {ownership.states:,} states, {ownership.steps:,} steps, depth {ownership.depth}, {took_s:.1f} s",
        f"  inputs: {checked.control_calls:,} of the control step, {checked.core_calls:,} of the hand-over core; "
        f"{len(checked.taken)} of {len(TABLE)} transitions of the table",
        f"  {ownership.breach or 'safe and live'}",
    ]
    for title, found in (("lease", lease), ("ownership", ownership)):
        if found.breach:
            lines += [f"  shortest trace, {title}:", *(f"  {at:4} {text}" for at, text in enumerate(found.trace, 1))]
    return lines


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m controller.sim.model", description=__doc__)
    parser.add_argument("--config", choices=CONFIGURATIONS, help="only this one")
    parser.add_argument("--disturbances", type=int, help="at most so many, instead of the configuration's own bound")
    parser.add_argument("--plant", choices=BUGS, metavar="BUG", help=f"plant one of {', '.join(BUGS)}")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
