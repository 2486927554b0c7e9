"""Reads the input of a backtest: JSON lines of load reports (our own or Pulsar's), or the tables of a running system.

Invalid lines are counted by rule and written to a quarantine file with number, rule, text and raw value, so that none
is lost silently. An input without a valid line is an error.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from controller.backtest.recording.lines import Figures, LineReader
from controller.backtest.recording.recording import Recorder, Recording
from controller.backtest.recording.stray import Strays, find_strays
from controller.backtest.recording.tables import add_panes, first_hour, pane_ends
from controller.domain.errors import BadRecord, ConfigError
from controller.ledger.tables import TableRoot
from controller.loads.recorded import Overrides

PANES_STEP_MS = 10_000  # of tables: one pane
ROUND_MS = (1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000)
SAMPLE = 2_000  # lines from which the step is chosen, if they are in order of time
LATE_AT_MOST = 0.1  # of these lines; with more, a part of the file does not tell how often brokers report
RAW_CHARACTERS = 4_096
_TABLE = re.compile(r"(?<=/)(broker|bundle)_panes/*$")  # the two tables are read together
OnProgress = Callable[[float], None]  # called with the part that is done, 0..1


@dataclass(slots=True)
class Input:
    """What was read, in steps of `step_ms`. `refused`: number of lines by the rule they broke. `policies`: of a
    recorded Pulsar cluster, its newest rules of placement; None if the recording has none."""

    recording: Recording
    step_ms: int
    reports: int
    refused: Counter[str] = field(default_factory=Counter)
    policies: dict[str, dict[str, Any]] | None = None


def read_input(
    source: str,
    step_ms: int | None,
    overrides: Overrides,
    quarantine: Path,
    on_progress: OnProgress = lambda part: None,
) -> Input:
    """Read a file of JSON lines (plain or .gz) or the tables below a root.

    `step_ms`: None for the brokers' report interval; of tables no step is shorter than a pane. Raises ConfigError if
    there is nothing usable at `source`.
    """
    path = Path(source)
    quarantine.unlink(missing_ok=True)
    if _is_file(path):
        return _read_lines(path, step_ms, overrides, quarantine, on_progress)
    root = tables_of(source)
    if root is not None:
        ends = pane_ends(root)
        if step_ms is None:
            step_ms = max(PANES_STEP_MS, usual_step_ms(first_hour(root, ends)))
        else:
            _check_step(step_ms, int(np.ptp(ends.to_numpy())) + PANES_STEP_MS)
            step_ms = max(step_ms, _pane_ms(ends))
        recorder = Recorder(step_ms)
        count = add_panes(root, ends, recorder, step_ms, on_progress)
        return Input(recorder.finish(), step_ms, count)
    if path.is_dir():
        near = [at for at in (path / "tables", path.parent) if TableRoot(at).exists("broker_panes")]
        wanted = f"did you mean {near[0]}?" if near else "name a file of JSON lines or the root of the tables"
        raise ConfigError(f"{path} has no table broker_panes: {wanted}")
    raise ConfigError(f"{path} does not exist: name a file of JSON lines or the root of the tables")


def _pane_ms(ends: pa.ChunkedArray) -> int:
    """The shortest distance between two panes; 0 where there is one only."""
    moments = np.unique(ends.to_numpy())
    return int(np.diff(moments).min()) if len(moments) > 1 else 0


def tables_of(source: str) -> TableRoot | None:
    """The tables that a recording is read from; None for a file of JSON lines, or where there is none."""
    if _is_file(Path(source)):
        return None
    root = TableRoot(_TABLE.sub("", source) or "/")
    return root if "://" in source or root.exists("broker_panes") else None


def _is_file(path: Path) -> bool:
    """A pipe is one as well."""
    return path.exists() and not path.is_dir()


def _read_lines(
    path: Path, step_ms: int | None, overrides: Overrides, quarantine: Path, on_progress: OnProgress
) -> Input:
    reader, times = LineReader(overrides), _Times()
    with _Quarantine(quarantine) as bad:
        lines = _good_lines(path, reader, bad, times, on_progress)
        first = _read_sample(lines)
        if not first:
            why = rules_text(bad.refused)
            detail = f"({why}); see {quarantine}" if why else "(it is empty)"
            raise ConfigError(f"{path} has no load report that can be used {detail}")
        usual_ms = _step_of(first)
        step_ms = step_ms or usual_ms
        recorder = Recorder(step_ms)
        for figures in chain(first, lines):
            recorder.add_figures(*figures)
        strays = find_strays(times.at_ms)
        if strays.parts:
            recorder.drop(strays.holds)
            _refuse_strays(path, strays, times, bad)
    kept = [at_ms for at_ms in times.at_ms if not strays.holds(at_ms)]
    _check_step(step_ms, max(kept) - min(kept) + usual_ms)  # the last report speaks for a step as well
    return Input(recorder.finish(), step_ms, len(kept), bad.refused, reader.policies)


def _check_step(step_ms: int, lasts_ms: int) -> None:
    if step_ms > lasts_ms:
        text = f"a step of {step_ms} ms is longer than the recording, which lasts {lasts_ms} ms"
        raise ConfigError(f"{text}: give a shorter one, or none for the interval of the reports")


def rules_text(refused: Mapping[str, int]) -> str:
    """How many lines each rule refused: `not_json: 3, wrong_type: 1`."""
    return ", ".join(f"{rule}: {count}" for rule, count in sorted(refused.items()))


def _step_of(reports: list[Figures]) -> int:
    """The usual step, of which a report of another time tells nothing."""
    strays = find_strays(figures.order[0] for figures in reports)
    return usual_step_ms((f.broker, f.order[0]) for f in reports if not strays.holds(f.order[0]))


def _refuse_strays(path: Path, strays: Strays, times: _Times, bad: _Quarantine) -> None:
    """Quarantine the reports of these times. Their lines are read again; of a pipe they are gone."""
    stray = {number: at_ms for number, at_ms in zip(times.numbers, times.at_ms, strict=True) if strays.holds(at_ms)}
    raw: dict[int, bytes] = {}
    if path.is_file():
        with open_lines(path) as (file, _):
            raw = {number: line for number, line in enumerate(file, start=1) if number in stray}
    for number, at_ms in stray.items():
        bad.add(number, strays.refusal(number, at_ms), raw.get(number, b""))


def _read_sample(lines: Iterator[Figures]) -> list[Figures]:
    """As many lines as it takes to choose a step: all of them if reports are not in order of time."""
    newest: dict[str, int] = {}
    first: list[Figures] = []
    late = 0
    for figures in lines:
        first.append(figures)
        at_ms = figures.order[0]
        late += at_ms < newest.get(figures.broker, at_ms)
        newest[figures.broker] = max(at_ms, newest.get(figures.broker, at_ms))
        if len(first) >= SAMPLE and late <= LATE_AT_MOST * len(first):
            break
    return first


def usual_step_ms(reports: Iterable[tuple[str, int]]) -> int:
    """The median time between two reports (broker, ms) of a broker, as a round number of seconds."""
    last: dict[str, int] = {}
    distances = []
    for broker, at_ms in sorted(reports, key=lambda report: report[1]):
        if at_ms > last.get(broker, at_ms):  # a repeated report has no distance
            distances.append(at_ms - last[broker])
        last[broker] = at_ms
    usual = sorted(distances)[len(distances) // 2] if distances else ROUND_MS[-4]
    return next((step for step in ROUND_MS if step >= 0.9 * usual), ROUND_MS[-1])


class _Times:
    """The time and the number of each line that holds a report: a few bytes, however large the file is."""

    def __init__(self) -> None:
        self.at_ms, self.numbers = array("q"), array("q")

    def add(self, at_ms: int, number: int) -> None:
        self.at_ms.append(at_ms)
        self.numbers.append(number)


def _good_lines(
    path: Path, reader: LineReader, bad: _Quarantine, times: _Times, on_progress: OnProgress
) -> Iterator[Figures]:
    size = max(path.stat().st_size, 1)
    with open_lines(path) as (file, position):
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                figures = reader.read(line, number)
                if figures is not None:
                    times.add(figures.order[0], number)
                    yield figures
            except BadRecord as error:
                bad.add(number, error, line)
            if number % 256 == 0:
                on_progress(min(position() / size, 1.0))
    on_progress(1.0)


@contextmanager
def open_lines(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The lines, and a function for the position in the file itself."""
    with path.open("rb") as raw:
        if path.suffix != ".gz":
            yield raw, raw.tell if raw.seekable() else lambda: 0
            return
        try:
            with gzip.open(raw) as file:
                yield file, raw.tell  # type: ignore[misc]
        except EOFError:
            raise ConfigError(f"{path} is cut off: the archive has no end; copy it again") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise ConfigError(f"{path} is no gzip archive, or a damaged one ({error}); copy it again") from None


class _Quarantine:
    """Counts refused lines by rule, and writes them to a file, which is created with the first of them."""

    def __init__(self, path: Path) -> None:
        self.refused: Counter[str] = Counter()
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> _Quarantine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, number: int, error: BadRecord, line: bytes) -> None:
        self.refused[error.rule_id] += 1
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
        raw = line[:RAW_CHARACTERS].decode("utf-8", "replace").rstrip("\n")
        json.dump({"line": number, "rule": error.rule_id, "text": error.text, "raw": raw}, self._file)
        self._file.write("\n")
