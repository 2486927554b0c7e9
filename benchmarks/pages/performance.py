"""The tables of docs/performance.md from benchmarks/results/. `python -m benchmarks.pages.performance --write`

The text of the page is written by hand. The parts between a pair of markers (`<!-- figures: targets -->` and
`<!-- end -->`) are generated from the results, so the page can only state measured figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.control.latency_chain import STEPS
from benchmarks.measure.figures import RESULTS
from benchmarks.measure.loads.scale_model import fit, of_one_shape
from benchmarks.pages.plots import SCENARIOS
from controller.process.paths import ROOT

HELD = {"one": "one worker", "two": "two workers"}
PAGE = ROOT / "docs" / "performance.md"
_PART = re.compile(r"(<!-- figures: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(page: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Replace every marked part of the page. Raises KeyError for an unknown part."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}{PARTS[match['name']](results)}{match[3]}"

    return _PART.sub(part, page)


def targets(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Every figure with a limit, and whether it meets the limit."""
    rows = [
        (f"`{name}`", t["figure"], f"{_plain(t['measured'])} {t['unit']}", f"{t['limit']:g} {t['unit']}", _verdict(t))
        for name, document in sorted(results.items())
        for t in document["figures"].get("targets", [])
    ]
    return _table(("benchmark", "figure", "measured", "limit", ""), rows)


def machines(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The machine that each benchmark ran on."""
    rows = [
        (f"`{name}`", d["taken_at"][:10], f"{m['threads']} × {m['cpu']}, {m['memory_gib']} GiB", f"{m['load_1m']}")
        for name, d in sorted(results.items())
        if (m := d["machine"])
    ]
    return _table(("benchmark", "taken", "machine", "load average at the end, its own included"), rows)


def control_path(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Milliseconds of an event by step, with a column for each scenario."""
    figures = results.get("control_stages", {}).get("figures", {})
    known = {title: figures[name]["events_ms"] for name, title in SCENARIOS.items() if name in figures}
    rows = []
    for step in (*STEPS, "total"):
        cells = [f"{found[step]['mean']:g} / {found[step]['p99']:g}" for found in known.values()]
        rows.append((f"`{step}`", STEPS.get(step, "all of it"), *cells))
    return _table(("step", "what happens in it", *[f"{title}: mean / p99 ms" for title in known]), rows)


def spark_cost(results: Mapping[str, Mapping[str, Any]]) -> str:
    """What a bundle statistic costs the loads query, by measurement of `cluster_scale`."""
    figures = results.get("cluster_scale", {}).get("figures")
    if figures is None:
        return "Not measured yet.\n"
    cost, held = figures["cost"], [figures[name] for name in ("workers", "workers_small") if name in figures]
    named = [
        ("local mode", cost["local"]), ("two workers of a core", cost["cluster"]),
        *((f"{count} of half a core", row[key]) for row in held for key, count in HELD.items()),
        *(("two workers of a core", row) for row in figures["growth"]),
    ]  # fmt: skip
    rows = [
        (
            what, f"{row['brokers']:,}", f"{row['listed']:,} + {row['tail']:,}", row["writer"],
            f"{row['stats_per_s']:,}",
            f"{row['executors_us_a_stat']:g}", f"{row['driver_us_a_stat']:g}", f"{row['shuffled_bytes_a_stat']:g}",
            f"{row['memory_mib']['executors']:,} / {row['memory_mib']['driver']:,}",
        )
        for what, row in named
    ]  # fmt: skip
    head = ("on", "brokers", "bundles listed + in the tail", "written by", "statistics a second", "executors' µs",
            "driver's µs", "bytes shuffled", "memory of executors / driver, MiB")  # fmt: skip
    return _table(head, rows)


def spark_model(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Cores and memory that the loads query needs for many brokers, by lines through what `cluster_scale` measured."""
    figures = results.get("cluster_scale", {}).get("figures")
    if figures is None:
        return "Not measured yet.\n"
    model = fit(of_one_shape(figures["growth"]))
    missed = " and ".join(
        f"{line['cpu_s_missed']:g} CPU seconds a batch and {line['memory_mib_missed']:,} MiB ({part})"
        for part, line in model["lines"].items()
    )
    rows = [
        (f"{row['brokers']:,}", f"{row['stats_per_s']:,}", f"{row['executors_cores']:g}", f"{row['driver_cores']:g}",
         f"{row['executors_mib']:,}", f"{row['driver_mib']:,}")
        for row in model["predicted"]
    ]  # fmt: skip
    head = ("brokers", "statistics a second", "executors' cores", "driver's cores", "executors' MiB", "driver's MiB")
    return f"{_table(head, rows)}\nThe measurements are off these lines by at most {missed}.\n"


def spark_writers(results: Mapping[str, Mapping[str, Any]]) -> str:
    """What a bundle statistic costs as batches grow, by who writes, as `cluster_writers` measured it."""
    figures = results.get("cluster_writers", {}).get("figures", {})
    named = {"delta_rs": "delta_rs, a folder", "delta_rs_in_store": "delta_rs, an object store",
             "tasks_in_store": "tasks, an object store", "spark": "spark, a folder"}  # fmt: skip
    rows = []
    for name, what in named.items():
        found = figures.get(name, {"sizes": []})
        for row in found["sizes"]:
            to_first = row["driver_us_a_stat"] / found["sizes"][0]["driver_us_a_stat"]
            rows.append((
                what, f"{row['stats_a_batch']:,}", f"{row['driver_us_a_stat']:g}", f"{to_first:.2f}",
                f"{row['driver_cpu_s_a_batch']:.2f}", f"{row['executors_us_a_stat']:g}", f"{row['stats_per_s']:,}",
                f"{row['memory_mib']['executors']:,} / {row['memory_mib']['driver']:,}",
            ))  # fmt: skip
    return _table(
        ("written by, into", "statistics a batch", "driver's µs", "to the smallest batch's", "driver's CPU s a batch",
         "executors' µs", "statistics a second", "memory of executors / driver, MiB"), rows,
    )  # fmt: skip


def other_parts(results: Mapping[str, Mapping[str, Any]]) -> str:
    """What the rest of the job takes, as far as it was measured."""
    rows = []
    if latency := results.get("control_scale", {}).get("figures"):
        load, times = latency["load"], latency["latency_s"]
        rows.append((
            "control query", f"{load['brokers']:,}", f"{load['brokers'] * load['bundles_a_broker']:,}",
            f"event to entry: {times['p50']:g} s, {times['p99']:g} s (p99)", "not measured apart",
        ))  # fmt: skip
    if largest := results.get("decide_speed", {}).get("figures", {}).get("largest"):
        rows.append((
            "round worker, its decision", f"{largest['brokers']:,}", f"{largest['bundles']:,}",
            f"CPU of a round: {largest['cpu_p50_ms'] / 1000:.2f} s, {largest['cpu_worst_ms'] / 1000:.2f} s (the worst)",
            f"{largest['peak_gib']:g} GiB",
        ))  # fmt: skip
    return _table(("part of the job", "brokers", "bundles", "median and worse", "memory"), rows)


def handover_gaps(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The gaps of `handover` beside the transfers that they are a part of, by run."""
    figures = results.get("handover", {}).get("figures", {})
    named = {"with_loads": "whole job, tables in a folder", "control_alone": "control alone, tables in a folder",
             "tables_in_store": "control alone, tables in an object store"}  # fmt: skip
    rows = [
        (what, f"{row['transfers']}", *map(_spread, (row["gap_ms"], *row["steps_ms"].values())))
        for name, what in named.items()
        if (row := figures.get(name))
    ]
    head = ("run", "transfers", "gap", "from `transferring` to `releasing`", "from `transferring` to `owned`")
    return _table((*head[:2], *(f"{name}: p50 / p99 / worst ms" for name in head[2:])), rows)


def commit_in_store(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A commit in the store beside one in a folder, and what the store's server has of it, in a sentence."""
    figures = results.get("commit_in_store", {}).get("figures", {})
    store, folder = figures.get("in_store", {}), figures.get("in_folder", {})
    busy_ms = store.get("server_busy_ms_a_commit")
    if busy_ms is None:  # older results added up requests at once
        return "How long the server is at work for a commit is not measured yet.\n"
    return (
        f"A commit alone (`commit_in_store`) takes {store['commit_ms']['p50']:g} ms there and"
        f" {folder['commit_ms']['p50']:g} ms in a folder (p50). It makes {store['requests_a_commit']:g} requests;"
        f" meanwhile the server is at work for {busy_ms:g} ms (means).\n"
    )


def report_times(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Reports and rounds of `report_latency` and `report_scale`, by where the job runs."""
    figures, large = (results.get(name, {}).get("figures", {}) for name in ("report_latency", "report_scale"))
    load = figures.get("load")
    known = [
        ("local mode", load, figures), ("two workers of a core", load, figures.get("on_cluster", {})),
        *(("two workers of a core", run.get("load"), run) for run in (large, large.get("all_listed", {}))),
    ]  # fmt: skip
    rows = []
    for where, of, found in known:
        if "rounds" in found:
            latency, rounds, memory = found["latency_s"], found["rounds"], found.get("memory_mib")
            due, computed = rounds["due_to_journaled_s"], rounds["computed_s"]
            listed = f", {of['listed_a_report']:,} listed" if "listed_a_report" in of else ""
            size = f"{of['brokers']:,} × {of['bundles_a_broker']:,}{listed}, every {of['report_every_s']:g} s"
            mib = f"{memory['executors']:,} / {memory['driver']:,}" if memory else "not measured"
            counts = f"{latency['count']}", f"{due['count']}"
            rows.append((where, size, counts[0], _spread(latency), counts[1], _spread(due), _spread(computed), mib))
    return _table(
        ("on", "brokers × bundles, reports", "reports seen", "report to row: p50 / p99 / worst s", "rounds",
         "due to journaled: p50 / p99 / worst s", "computed: p50 / p99 / worst s",
         "memory of executors / driver's processes, MiB"), rows,
    )  # fmt: skip


def decide_times(results: Mapping[str, Mapping[str, Any]]) -> str:
    """What a round of `steady` takes by size, and what its usage model adds to it."""
    figures = results.get("decide_speed", {}).get("figures", {})
    sizes = [*figures.get("sizes", []), *([figures["largest"]] if "largest" in figures else [])]
    if not sizes or "keep_p50_ms" not in sizes[0]:
        return "Not measured yet.\n"
    rows = [
        (f"{row['brokers']:,} × {row['bundles']:,}", *(f"{row[f'{of}p50_ms']:g} / {row[f'{of}worst_ms']:g}"
         for of in ("", "keep_", "write_")), f"{row['read_ms']:g}")
        for row in sizes
    ]  # fmt: skip
    head = ("brokers × bundles", "a round: p50 / worst ms", "of it, choosing and hashing", "then writing, after it",
            "reading, at a start")  # fmt: skip
    return _table(head, rows)


PARTS = {
    "targets": targets,
    "handover_gaps": handover_gaps,
    "commit_in_store": commit_in_store,
    "report_times": report_times,
    "machines": machines,
    "control_path": control_path,
    "decide_times": decide_times,
    "spark_cost": spark_cost,
    "spark_model": spark_model,
    "spark_writers": spark_writers,
    "other_parts": other_parts,
}


def refresh() -> None:
    """Write the page."""
    PAGE.write_text(render(PAGE.read_text(), load_results()))


def load_results(directory: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Benchmark -> its newest results."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(value: float | None) -> str:
    return "not seen" if value is None else f"{value:g}"


def _spread(times: Mapping[str, float]) -> str:
    """Median, 99th percentile and worst of a summary."""
    return " / ".join(f"{times[name]:g}" for name in ("p50", "p99", "max"))


def _verdict(target: Mapping[str, Any]) -> str:
    return "kept" if target["reached"] else "**missed**"


def main(argv: Sequence[str]) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    parser = argparse.ArgumentParser(description="docs/performance.md from benchmarks/results/")
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args(argv)
    if given.write:
        refresh()
    elif render(PAGE.read_text(), load_results()) != PAGE.read_text():
        print(
            "docs/performance.md is not what benchmarks/results/ says: `python -m benchmarks.pages.performance --write`"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
