"""CPU quotas of brokers, on folders that look like both versions of cgroups."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controller.testbed.pulsar.cgroups import CpuGroup, cpu_hierarchies
from controller.testbed.pulsar.spec import PulsarFailed


def mount_table(tmp_path: Path, *mounts: tuple[str, str, str]) -> Path:
    """A mountinfo with these (folder, kind, options)."""
    file = tmp_path / "mountinfo"
    lines = [
        f"30 25 0:26 / {tmp_path / folder} rw,relatime - {kind} {kind} {options}" for folder, kind, options in mounts
    ]
    file.write_text("22 1 254:0 / / rw - ext4 /dev/vda rw\n" + "\n".join(lines) + "\n")
    for folder, _, _ in mounts:
        (tmp_path / folder).mkdir(exist_ok=True)
    return file


def group_in(tmp_path: Path, mounts: Path) -> CpuGroup:
    return CpuGroup.of(tmp_path, "broker1", mounts)


def test_version_1_uses_the_hierarchies_that_limit_and_that_count(tmp_path: Path) -> None:
    mounts = mount_table(
        tmp_path,
        ("cpu", "cgroup", "rw,cpu"),
        ("cpuacct", "cgroup", "rw,cpuacct"),
        ("cpuset", "cgroup", "rw,cpuset"),
        ("unified", "cgroup2", "rw"),
    )
    group = group_in(tmp_path, mounts)
    assert [folder.parent.name for folder in group.folders] == ["cpu", "cpuacct"]
    group.make()
    for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):  # which the kernel would have made
        (group.folders[0] / name).write_text("")
    group.limit(0.4)
    assert (group.folders[0] / "cpu.cfs_quota_us").read_text() == "40000"
    assert (group.folders[0] / "cpu.cfs_period_us").read_text() == "100000"
    assert list(group.folders[1].iterdir()) == []


def test_version_1_with_both_in_one_hierarchy(tmp_path: Path) -> None:
    mounts = mount_table(tmp_path, ("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct"))
    assert cpu_hierarchies(mounts) == [tmp_path / "cpu,cpuacct"]


def test_version_2_lets_groups_limit_cpu(tmp_path: Path) -> None:
    mounts = mount_table(tmp_path, ("all", "cgroup2", "rw"))
    (tmp_path / "all" / "cgroup.controllers").write_text("cpuset cpu memory\n")
    control = tmp_path / "all" / "cgroup.subtree_control"
    control.write_text("")
    group = group_in(tmp_path, mounts)
    group.make()
    assert control.read_text() == "+cpu"
    (group.folders[0] / "cpu.max").write_text("max 100000")
    group.limit(1.0)
    assert (group.folders[0] / "cpu.max").read_text() == "100000 100000"


def test_without_a_cpu_controller_the_error_says_what_to_leave_out(tmp_path: Path) -> None:
    mounts = mount_table(tmp_path, ("all", "cgroup2", "rw"))
    (tmp_path / "all" / "cgroup.controllers").write_text("memory\n")
    with pytest.raises(PulsarFailed, match=r"no cgroups with a CPU controller .* without --cpu-quota"):
        group_in(tmp_path, mounts)


def test_groups_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    mounts = mount_table(tmp_path, ("cpu", "cgroup", "rw,cpu,cpuacct"))
    group = group_in(tmp_path, mounts)
    (tmp_path / "cpu").rmdir()  # nothing can be made in it, for root neither
    with pytest.raises(
        PulsarFailed, match=r"cgroups are not writable here \(.*/cpu/ballast-[0-9a-f]{8}-broker1: .*--cpu-quota"
    ):
        group.make()


def test_a_program_enters_its_groups_before_it_runs(tmp_path: Path) -> None:
    folders = [tmp_path / "a b", tmp_path / "c"]
    for folder in folders:
        folder.mkdir()
    argv = CpuGroup(folders).enter(["/bin/sh", "-c", 'echo "$$ $1"', "sh", "an argument"])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    pid, _, argument = done.stdout.strip().partition(" ")
    assert argument == "an argument"
    assert [(folder / "cgroup.procs").read_text().strip() for folder in folders] == [pid, pid]


def test_a_program_that_cannot_enter_does_not_run(tmp_path: Path) -> None:
    done = subprocess.run(CpuGroup([tmp_path / "absent"]).enter(["echo", "ran"]), capture_output=True, text=True)
    assert (done.returncode != 0, done.stdout) == (True, "")


def test_clusters_of_different_folders_have_different_groups(tmp_path: Path) -> None:
    mounts = mount_table(tmp_path, ("cpu", "cgroup", "rw,cpu"))
    one, other = (CpuGroup.of(tmp_path / folder, "broker1", mounts) for folder in ("x", "y"))
    assert one.folders != other.folders


def test_removed_groups_are_gone_and_removing_twice_is_no_error(tmp_path: Path) -> None:
    group = group_in(tmp_path, mount_table(tmp_path, ("cpu", "cgroup", "rw,cpu")))
    group.make()
    group.remove()
    group.remove()
    assert list((tmp_path / "cpu").iterdir()) == []


def test_a_quota_is_taken_back(tmp_path: Path) -> None:
    group = group_in(tmp_path, mount_table(tmp_path, ("cpu", "cgroup", "rw,cpu,cpuacct")))
    group.make()
    for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (group.folders[0] / name).write_text("")
    group.limit(0.4)
    group.lift()
    assert (group.folders[0] / "cpu.cfs_quota_us").read_text() == "-1"


@pytest.mark.parametrize(("file", "text"), [("cpuacct.usage", "1500000000\n"), ("cpu.stat", "usage_usec 1500000\n")])
def test_used_cpu_is_read_as_both_versions_write_it(tmp_path: Path, file: str, text: str) -> None:
    group = group_in(tmp_path, mount_table(tmp_path, ("cpu", "cgroup", "rw,cpu,cpuacct")))
    group.make()
    with pytest.raises(PulsarFailed, match="counts"):
        group.used_s()
    (group.folders[0] / file).write_text(text)
    assert group.used_s() == 1.5
