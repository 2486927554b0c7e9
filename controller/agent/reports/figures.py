"""What of a runtime's sample can be reported. Pure.

The controller takes no report in which a single figure is not a finite number, or is negative, and it knows only the
resources of `domain.load`. What would cost the whole report, or be lost without a word, is left out and named.
"""

from __future__ import annotations

import math
from dataclasses import replace
from operator import attrgetter
from typing import Any

from controller.brokers.runtime import BundleStats, LoadSample
from controller.domain.errors import shown
from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS, RESOURCES

TIMES = ("rpc_queue_ms", "metadata_latency_ms")
PLAIN = frozenset({int, float})
_all_fields = attrgetter(*BUNDLE_FIELDS)


def keep_reportable(sample: LoadSample) -> tuple[LoadSample, dict[str, str]]:
    """The sample without what cannot be reported, and what is wrong with it: a sentence by the figure's name.

    A resource that is left out is unknown; a bundle's figure, or a time, is 0.
    """
    troubles: dict[str, str] = {}
    resources = {name: pair for name, pair in sample.resources.items() if _is_resource(name, pair, troubles)}
    bundles = {
        bundle: stats if _are_figures(_all_fields(stats)) else _corrected(bundle, stats, troubles)
        for bundle, stats in sample.bundles.items()
    }
    times = {name: 0.0 for name in TIMES if not _is_figure(getattr(sample, name))}
    for name in times:
        troubles[name] = _wanted(name, getattr(sample, name))
    return replace(sample, resources=resources, bundles=bundles, **times), troubles


def _is_resource(name: str, pair: Any, troubles: dict[str, str]) -> bool:
    if name not in RESOURCES:
        troubles[name] = f"resource {shown(name)} is none of {', '.join(RESOURCES)}"
    elif not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(_is_finite, pair))):
        troubles[name] = f"resource {name} is {shown(pair)}, wanted (usage, limit), two finite ints or floats of Python"
    elif pair[1] > 0 > pair[0]:
        troubles[name] = f"resource {name} is {shown(pair)}: a negative usage of a known limit"
    return name not in troubles


def _corrected(bundle: Bundle, stats: BundleStats, troubles: dict[str, str]) -> BundleStats:
    """The figures with 0 for those that are wrong, if any is: they were not seen to be right at a glance."""
    wrong = {name: getattr(stats, name) for name in BUNDLE_FIELDS if not _is_figure(getattr(stats, name))}
    for name, value in wrong.items():
        troubles.setdefault(name, _wanted(f"{name} of {bundle}", value))
    zeros: dict[str, Any] = dict.fromkeys(wrong, 0)
    return replace(stats, **zeros)


def _wanted(name: str, value: object) -> str:
    return f"{name} is {shown(value)}, wanted an int or a float of Python, finite and >= 0"


def _are_figures(values: tuple[Any, ...]) -> bool:
    """Whether all of them are, at a glance: a broker may have thousands of bundles, and its loop waits for this."""
    return PLAIN.issuperset(map(type, values)) and min(values) >= 0 and sum(values) < math.inf


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_figure(value: Any) -> bool:
    return _is_finite(value) and value >= 0
