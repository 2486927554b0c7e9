"""The comparison with Pulsar's own balancers in docs/pulsar.md. `python -m benchmarks.pages.pulsar_compare [--write]`

Tables and verdicts come from benchmarks/results/pulsar_compare/ and from the definitions of plays and load alone. A
missing play is shown as not played, and a balancer that moved nothing proves nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.pages.generated import table, with_parts, write_or_check
from benchmarks.pulsar_compare import load
from benchmarks.pulsar_compare.figures import WITHIN, Span, relief_s
from benchmarks.pulsar_compare.play import WARM_UP_S
from benchmarks.pulsar_compare.plays import (
    BALLAST,
    BROKERS,
    COMMON,
    HANDS_OFF,
    PLAYS,
    QUICK,
    Play,
)
from benchmarks.pulsar_compare.result import read_results, read_volume
from benchmarks.pulsar_compare.samples import CpuSample
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "pulsar.md"
Results = Mapping[str, Mapping[str, Any]]
NOT_PLAYED, NEVER_ACTED = "not played", "never acted: proves nothing"
BALANCING = [play for play in PLAYS.values() if not play.unloads]
OURS = [play for play in BALANCING if play.overrides is not None]
RESPONSIVE = [play for play in BALANCING if play.overrides is None and play.settings]
UNLOADING = [play for play in PLAYS.values() if play.unloads]
LEAST_SENT = 0.95  # of the load: with less, the machine was too busy for the play
RELIEF_SHARE, GAP_SHARE = 0.5, 1.2  # of the rival's figure, at most
SHORT_S = 20.0  # a window that hides less of a skew than a minute does, and still averages the CPU's noise


def render(page: str, results: Results) -> str:
    """Replace the generated parts. Raises KeyError for an unknown one."""
    return with_parts(
        page,
        {
            "comparison": lambda: comparison(results),
            "comparison_verdicts": lambda: verdicts(results),
            "comparison_unloads": lambda: unloads(results),
            "comparison_settings": settings,
            "comparison_machine": lambda: machines(results),
        },
    )


def comparison(results: Results) -> str:
    """A row for each play of balance."""
    phases = [phase.name for phase in load.PHASES[1:]]
    head = ["balancer", "mean spread", "at the end", f"minutes above {WITHIN}", "unloads", *phases]
    head += [f"mean relief, windows of {SHORT_S:.0f} s", "lost", ""]
    return table(head, [_row(play, results, phases) for play in BALANCING])


def verdicts(results: Results) -> str:
    """Where Ballast is better than the responsive rivals that acted, and where it is not."""
    lines = [f"- {line}" for play in OURS for line in _verdicts_of(play, results)]
    return "\n".join(lines) + "\n"


def unloads(results: Results) -> str:
    """Gaps of clients by kind of unload, and whether orders cost them more."""
    rows, lines = [], []
    for play in UNLOADING:
        figures = _figures(play, results)
        if figures is None:
            rows.append([play.manager, NOT_PLAYED, "", "", "", "", ""])
            continue
        kinds = [(kind.replace("_", " "), figures[kind]) for kind in ("orders", "plain_unloads")]
        kinds += [(f"{kind} that moved it", found["moved"]) for kind, found in kinds if "moved" in found]
        rows += [[play.manager, kind, *_gap_cells(found)] for kind, found in kinds]
        lines += [f"- {play.manager}: {line}" for line in _gap_verdicts(figures)]
    head = ["load manager", "kind", "number", "publish gap p50, ms", "p99", "max", "consume gap p50, ms"]
    return table(head, rows) + "".join(f"\n{line}" for line in lines) + ("\n" if lines else "")


def _gap_cells(found: Mapping[str, Any]) -> list[str]:
    publish, consume = found["publish_gap_ms"], found["consume_gap_ms"]
    if not publish["count"]:
        return ["0", "", "", "", ""]
    return [*(f"{publish[name]:g}" for name in ("count", "p50", "p99", "max")), f"{consume['p50']:g}"]


def _gap_verdicts(figures: Mapping[str, Any]) -> Iterator[str]:
    ours = figures["orders"]["publish_gap_ms"]["p50"]
    plain = figures["plain_unloads"]
    for what, found in (("plain unloads", plain), ("plain unloads that moved the bundle", plain.get("moved"))):
        if found is not None and found["publish_gap_ms"]["count"]:
            theirs = found["publish_gap_ms"]["p50"]
            better = "at most a fifth longer" if ours <= GAP_SHARE * theirs else "**more than a fifth longer**"
            yield f"the median gap of an order is {ours:g} ms, {better} than the {theirs:g} ms of {what}."


def settings() -> str:
    """What differs from Pulsar's shipped settings, and from Ballast's own."""
    rows = [["all of Pulsar's", _pairs(COMMON)]]
    rows += [[play.title, _pairs(play.settings)] for play in RESPONSIVE]
    rows.append(["Pulsar under Ballast", _pairs(HANDS_OFF)])
    rows.append(["Ballast, rounds of 60 s", _list(BALLAST)])
    rows.append(["Ballast, rounds of 10 s", _list(QUICK)])
    return table(["balancer", "settings"], rows)


def machines(results: Results) -> str:
    """Load, quotas and the machine."""
    cores = (read_volume() or load.GUESS).broker_cores
    lines = [
        f"{BROKERS} brokers with {cores:g} cores each; {load.number_of_bundles(BROKERS)} bundles with"
        f" {load.TOPICS_A_BUNDLE} topics each; messages of {load.MESSAGE_BYTES} bytes, not batched, each read once;"
        f"{_volume()}; a warm-up of"
        f" {WARM_UP_S:g} s at even load before the first phase, half of it without quotas."
    ]
    seen = {_machine(document) for document in results.values()}
    return "\n".join([*lines, *(f"Machine: {text}." for text in sorted(seen))]) + "\n"


# ---------------------------------------------------------------- inside


def _row(play: Play, results: Results, phases: Sequence[str]) -> list[str]:
    title, figures = f"{play.title} ({play.manager})", _figures(play, results)
    if figures is None:
        return [title, *[""] * (6 + len(phases)), NOT_PLAYED]
    reliefs = [_relief(figures["reliefs"].get(name)) for name in phases]
    return [
        title,
        f"{figures['spread_mean']:.2f}",
        f"{figures['spread_end']:.2f}",
        f"{figures['minutes_above']} of {figures['minutes']}",
        str(figures["unloads"]),
        *reliefs,
        f"{_short_s(figures):.0f} s",
        str(figures["clients"]["lost"]),
        "; ".join(_remarks(figures)),
    ]


def _remarks(figures: Mapping[str, Any]) -> Iterator[str]:
    if not figures["reported_cpu"]["counts"]:
        yield "**does not count: brokers did not report CPU of their own**"
    if figures["sent_share"] < LEAST_SENT:
        yield f"**clients sent only {figures['sent_share']:.0%} of the load**"
    if not figures["unloads"]:
        yield NEVER_ACTED
    if figures["clients"]["reordered"]:
        yield f"{figures['clients']['reordered']} out of order"


def _relief(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return "never" if found["relief_s"] is None else f"{found['relief_s']:.0f} s"


def _verdicts_of(play: Play, results: Results) -> Iterator[str]:
    ours, name = _figures(play, results), f"{play.title} ({play.manager})"
    if ours is None:
        yield f"{name}: {NOT_PLAYED}."
        return
    rivals = {
        f"{rival.title} ({rival.manager})": figures
        for rival in RESPONSIVE
        if (figures := _figures(rival, results)) and figures["unloads"] and figures["reported_cpu"]["counts"]
    }
    if not rivals or not ours["reported_cpu"]["counts"]:
        yield f"{name}: there is nothing to compare it with yet."
        return
    for rival, figures in rivals.items():
        lower = ours["spread_mean"] < figures["spread_mean"]
        said = "lower than" if lower else "**not lower than**"
        yield f"{name}: a mean spread of {ours['spread_mean']:.3f}, {said} the {figures['spread_mean']:.3f} of {rival}."
    best = min(rivals, key=lambda rival: float(rivals[rival]["spread_mean"]))
    said = "no more than" if ours["unloads"] <= rivals[best]["unloads"] else "**more than**"
    yield f"{name}: {ours['unloads']} unloads, {said} the {rivals[best]['unloads']} of the best of them, {best}."
    for window, reliefs_of in (("", _counted_s), (f" in windows of {SHORT_S:.0f} s", _short_s)):
        for rival, figures in rivals.items():
            mine, theirs = reliefs_of(ours), reliefs_of(figures)
            said = "at most half of" if mine <= RELIEF_SHARE * theirs else "**more than half of**"
            said += f" the {theirs:.0f} s of {rival}"
            yield f"{name}: {mine:.0f} s from a skew to relief on average{window}, {said}."
    lost = ours["clients"]["lost"]
    yield f"{name}: {f'**{lost} messages lost**' if lost else 'nothing lost'}."


def _counted_s(figures: Mapping[str, Any]) -> float:
    """Mean time to relief over all skews; one without relief counts with its length."""
    found = [relief["counted_s"] for relief in figures["reliefs"].values()]
    return float(sum(found) / len(found))


def _short_s(figures: Mapping[str, Any]) -> float:
    """As `_counted_s`, by windows of `SHORT_S`. A skew lasts until its phase ends, however late it began."""
    cpu = [CpuSample(*sample) for sample in figures["cpu_samples"]]
    found = []
    for number, phase in enumerate(load.PHASES):
        if relief := figures["reliefs"].get(phase.name):
            until_s = (number + 1) * 60 * figures["minutes"] / len(load.PHASES)
            skew = Span(phase.name, until_s - relief["length_s"], until_s)
            in_short = relief_s(cpu, skew, SHORT_S)
            found.append(relief["length_s"] if in_short is None else in_short)
    return float(sum(found) / len(found))


def _figures(play: Play, results: Results) -> Mapping[str, Any] | None:
    document = results.get(play.name)
    return None if document is None else document["figures"]


def _pairs(settings: Mapping[str, str]) -> str:
    return ", ".join(
        f"`{name}={value.rpartition('.')[2] if '.' in value and value[0].isalpha() else value}`"
        for name, value in settings.items()
    )


def _volume() -> str:
    volume = read_volume()
    if volume is None:
        return ""
    return f" {volume.even_per_s:,.0f} messages/s in the even phase, {volume.hot_per_s:,.0f} more to hot topics"


def _list(overrides: Sequence[str]) -> str:
    return ", ".join(f"`{override}`" for override in overrides)


def _machine(document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    return f"{machine['threads']} × {machine['cpu']}, {machine['memory_gib']:g} GiB"


def refresh() -> None:
    """Write the page."""
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), read_results()), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    return write_or_check(
        argv,
        PAGE,
        lambda page: render(page, read_results()),
        "The comparison with Pulsar's own balancers in docs/pulsar.md.",
        "does not say what was played: run `python -m benchmarks.pages.pulsar_compare --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
