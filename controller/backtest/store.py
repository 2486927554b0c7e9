"""The folder of a backtest: the prepared arrays that all points share, one file per finished point, the tables.

A point's file is named by a digest of everything that its result depends on: recording, replay, configuration, the
point, and the code that computes results. It is written to a temporary file and renamed, so every file is complete and
a second run can use it. Arrays are read as memory maps, so processes share one copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.resources
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controller.backtest.point.grid import GridPoint
from controller.backtest.point.result import PointRun, to_csv
from controller.backtest.recording.prepared import ARRAYS, Prepared, Replay
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.settings.policy import PolicySettings
from controller.domain.settings.weighted import ALL_BUILT_IN
from controller.policy.strategies import get
from controller.process.paths import make_folder

if TYPE_CHECKING:
    from importlib.abc import Traversable

POINTS, REPLAYS, QUARANTINE, RESULTS_CSV, RESULTS_JSON = (
    "points", "replays", "quarantine.jsonl", "results.csv", "results.json",
)  # fmt: skip
NAMES = "names.json"
_SHOWN = 16  # hex digits of a digest in names of folders
_OWN = re.compile(rf"[0-9a-f]{{{_SHOWN}}}(\.part)?")
# the code that computes the result of a point
_CODE = (
    "domain", "pulsar", "policy", "backtest/recording", "backtest/point", "sim/thrash.py", "sim/figures.py",
    "sim/ownership/load_cluster.py",
)  # fmt: skip


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of the code that computes results, so that results of another version are not used.

    The same wherever the code lies: in a checkout, an installed package, or the zip that executors get.
    """
    package = importlib.resources.files("controller")
    digest = hashlib.sha256()
    for part in _CODE:
        for name, text in _modules_in(package.joinpath(*part.split("/")), part):
            digest.update(name.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()


def _modules_in(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Name and text of a module, or of all modules below a folder, in order."""
    if not place.is_dir():
        yield name, place.read_bytes()
        return
    for child in sorted(place.iterdir(), key=lambda child: child.name):
        if child.is_dir() or child.name.endswith(".py"):
            yield from _modules_in(child, f"{name}/{child.name}")


def providers_digest(names: Sequence[str]) -> dict[str, str]:
    """Class -> SHA-256 of its module's file, for the operator's own classes, since they compute results as well."""
    found = {}
    for dotted in names:
        module = dotted.rpartition(".")[0]
        spec = importlib.util.find_spec(module) if module and dotted != ALL_BUILT_IN else None
        if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
            found[dotted] = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return found


def strategy_digest(name: str) -> dict[str, str]:
    """Module -> SHA-256 of its whole package, for a strategy of another package; {} for Ballast's own."""
    module = type(get(name)).__module__
    return {} if module.startswith("controller.") else {module: _package_digest(module)}


@lru_cache(maxsize=8)
def _package_digest(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    digest = hashlib.sha256()
    file = Path(spec.origin)
    for path in sorted(file.parent.rglob("*.py")) if spec.parent else [file]:
        digest.update(str(path.relative_to(file.parent)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Job:
    """What all points of a backtest share. `digest`: of the recording. `code`: of the code that computes results."""

    digest: str
    base: PolicySettings
    replay: Replay
    code: str = field(default_factory=code_digest)

    def key(self, point: GridPoint) -> str:
        """The name of the point's file. Points with the same result share it."""
        point = point.effective()
        about: dict[str, Any] = {"strategy": point.strategy, "knobs": point.knobs}
        code = strategy_digest(point.strategy)
        if code:
            about["strategy_code"] = code
        return self._digest({"base": asdict(self.base), **about})

    def replay_key(self) -> str:
        """The name of the folder of prepared arrays."""
        weights = self.base.weights.in_order()
        return self._digest({"weights": weights})[:_SHOWN]

    def _digest(self, about: dict[str, Any]) -> str:
        own = providers_digest(self.base.weighted.load_awareness_providers)
        common = {"code": self.code, "own": own, "recording": self.digest, "replay": asdict(self.replay)}
        text = json.dumps({**common, **about}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The folder of a backtest. No file in it is ever incomplete."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigError if the folder cannot be created or written to."""
        self.folder = folder
        make_folder(folder, f"--out {folder}")  # those inside once there is something to keep

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder for this process. Raises ConfigError while another process holds the lock."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            message = f"another backtest works in {self.folder}: wait for it, or name another folder in --out"
            raise ConfigError(message) from None
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            os.close(descriptor)

    def arrays(self, job: Job) -> Path:
        """The folder of the job's prepared arrays, whether it exists or not."""
        return self.folder / REPLAYS / job.replay_key()

    def keep_arrays(self, job: Job, prepared: Prepared) -> Path:
        """Store the prepared arrays and remove those of other jobs."""
        target = self.arrays(job)
        target.parent.mkdir(exist_ok=True)
        for old in target.parent.iterdir():
            if _OWN.fullmatch(old.name) and old.is_dir():
                shutil.rmtree(old)
        aside = target.with_name(f"{target.name}.part")
        aside.mkdir()
        for name, array in prepared.arrays().items():
            np.save(aside / f"{name}.npy", array)
        (aside / NAMES).write_text(json.dumps({"brokers": prepared.brokers, "bundles": prepared.bundles}))
        aside.rename(target)
        return target

    def load(self, job: Job, point: GridPoint) -> PointRun | None:
        """The stored run of a point, or None. An unreadable file counts as missing."""
        try:
            run = PointRun.from_json(json.loads(self._file(job, point).read_text()))
        except (FileNotFoundError, ValueError, TypeError, BadRecord):
            return None
        return replace(run, point=replace(run.point, knobs=dict(point.knobs)))

    def keep(self, job: Job, point: GridPoint, run: PointRun) -> None:
        """Store a finished point."""
        run = replace(run, point=replace(run.point, knobs=dict(point.effective().knobs)))
        (self.folder / POINTS).mkdir(exist_ok=True)
        _replace(self._file(job, point), json.dumps(run.to_json(), sort_keys=True, allow_nan=False))

    def write_tables(self, runs: Sequence[PointRun], about: dict[str, Any]) -> None:
        """Write results.csv and results.json of the finished points, in order. `about`: what was run."""
        results = [run.point for run in runs]
        _replace(self.folder / RESULTS_CSV, to_csv(results))
        document = {"about": about, "points": [result.to_json() for result in results]}
        _replace(self.folder / RESULTS_JSON, json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")

    def _file(self, job: Job, point: GridPoint) -> Path:
        return self.folder / POINTS / f"{job.key(point)}.json"


def load_arrays(folder: Path) -> Prepared:
    """The prepared arrays of a folder, as memory maps."""
    names = json.loads((folder / NAMES).read_text())
    # as plain arrays: numpy's class of memory maps makes every operation on a slice slower
    arrays = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ARRAYS}
    return Prepared(brokers=tuple(names["brokers"]), bundles=tuple(names["bundles"]), **arrays)


def _replace(file: Path, text: str) -> None:
    aside = file.with_name(f"{file.name}.{os.getpid()}.part")
    aside.write_text(text, encoding="utf-8")
    aside.replace(file)
