"""A cgroup for each broker, with a CPU quota: a broker then reports its own CPU instead of the whole host's.

The JDK reads quota and usage from the cgroups of its own process: in version 1 from the hierarchies `cpu` and
`cpuacct`, which may be one or two; in version 2 from the one hierarchy. A process enters its groups before the JVM
starts.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from controller.testbed.pulsar.spec import PulsarFailed

PERIOD_US = 100_000
_MOUNTS = Path("/proc/self/mountinfo")
# The shell enters the groups and becomes the program: same pid, and no code between fork and exec of our own.
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'


class CpuGroup:
    """The groups of one server, one in each hierarchy that counts or limits CPU."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    @classmethod
    def of(cls, owner: Path, name: str, mounts: Path = _MOUNTS) -> CpuGroup:
        """The groups of a server of the cluster in the folder `owner`. Raises PulsarFailed without CPU hierarchies."""
        label = f"ballast-{zlib.crc32(str(owner.resolve()).encode()):08x}-{name}"
        return cls([hierarchy / label for hierarchy in cpu_hierarchies(mounts)])

    def make(self) -> None:
        """Make the groups, without a quota yet. Raises PulsarFailed where they cannot be written."""
        try:
            for folder in self.folders:
                _enable_cpu(folder.parent)
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise _not_writable(error) from None
        self.lift()

    def lift(self) -> None:
        """Take the quota back."""
        self._set_quota("-1", "max")

    def limit(self, cores: float) -> None:
        """Set the quota. It may be set after the start, which would take minutes with a part of a core."""
        quota_us = max(1_000, round(cores * PERIOD_US))
        self._set_quota(str(quota_us), str(quota_us))

    def used_s(self) -> float:
        """CPU seconds that the groups' processes have used. Raises PulsarFailed where nothing counts them."""
        for folder in self.folders:
            if (folder / "cpuacct.usage").exists():
                return int((folder / "cpuacct.usage").read_text()) / 1e9
            if (folder / "cpu.stat").exists():
                lines = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
                if "usage_usec" in lines:
                    return int(lines["usage_usec"]) / 1e6
        raise PulsarFailed(f"no cgroup counts the CPU of {self.folders[0].name}")

    def _set_quota(self, first: str, second: str) -> None:
        """Write the quota as version 1 and version 2 of cgroups spell it."""
        try:
            for folder in self.folders:
                if (folder / "cpu.cfs_quota_us").exists():
                    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                    (folder / "cpu.cfs_quota_us").write_text(first)
                elif (folder / "cpu.max").exists():
                    (folder / "cpu.max").write_text(f"{second} {PERIOD_US}")
        except OSError as error:
            raise _not_writable(error) from None

    def enter(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` inside the groups."""
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self.folders), "--", *argv]

    def remove(self) -> None:
        """Remove the groups once their processes have ended; what stays is used again by the next start."""
        for folder in self.folders:
            for _ in range(20):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:  # busy for a moment after the last process has ended
                    time.sleep(0.05)
                else:
                    break


def cpu_hierarchies(mounts: Path = _MOUNTS) -> list[Path]:
    """Where groups that limit or count CPU are made: of version 1 if `cpu` is mounted there, else of version 2."""
    first: list[Path] = []
    second: list[Path] = []
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        place, (kind, _, options) = Path(before.split()[4]), after.split()[:3]
        if kind == "cgroup" and {"cpu", "cpuacct"} & set(options.split(",")):
            first.append(place)
        elif kind == "cgroup2":
            second.append(place)
    if first:
        return sorted(set(first))
    for place in second:
        with contextlib.suppress(OSError):
            if "cpu" in (place / "cgroup.controllers").read_text().split():
                return [place]
    raise PulsarFailed("no cgroups with a CPU controller are mounted: start the cluster without --cpu-quota")


def _enable_cpu(parent: Path) -> None:
    """Version 2: let groups under `parent` limit CPU."""
    control = parent / "cgroup.subtree_control"
    if control.exists() and "cpu" not in control.read_text().split():
        handle = os.open(control, os.O_WRONLY)
        try:
            os.write(handle, b"+cpu")
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(control)) from None
        finally:
            os.close(handle)


def _not_writable(error: OSError) -> PulsarFailed:
    return PulsarFailed(
        f"cgroups are not writable here ({error.filename}: {error.strerror}): run as root where /sys/fs/cgroup is"
        " mounted for writing, or start the cluster without --cpu-quota"
    )
