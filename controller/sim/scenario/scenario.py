"""The values that a run depends on: cluster, load and its shapes, reports, costs, faults, settings and times."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.domain.errors import ConfigError
from controller.domain.settings.policy import ControlSettings, PolicySettings
from controller.sim.load.cost_model import CostModel
from controller.sim.load.reports import ReportSpec
from controller.sim.load.shapes import MINUTE_MS, Shape
from controller.sim.load.workloads import LoadSpec
from controller.sim.scenario.faults import JOIN, RESTART, Fault
from controller.sim.scenario.orders import Order

PLACES = ("spread", "random", "packed")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The initial brokers b1, b2, …, with `cores` and `nic_bytes_per_s` (each direction) in turn."""

    brokers: int = 12
    cores: tuple[float, ...] = (8.0,)
    nic_bytes_per_s: tuple[float, ...] = (125e6,)
    place: str = "spread"

    def __post_init__(self) -> None:
        if self.brokers < 1 or min(self.cores, default=0) <= 0 or min(self.nic_bytes_per_s, default=0) <= 0:
            raise ConfigError(
                f"{self.brokers} brokers with {self.cores} cores and {self.nic_bytes_per_s} bytes/s: all above 0"
            )
        if self.place not in PLACES:
            raise ConfigError(f"place {self.place!r} is none of {', '.join(PLACES)}")

    def machine(self, number: int) -> tuple[float, float]:
        """Cores and bytes/s of a broker, counted from 0."""
        return self.cores[number % len(self.cores)], self.nic_bytes_per_s[number % len(self.nic_bytes_per_s)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a run depends on except the seed."""

    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    load: LoadSpec = field(default_factory=LoadSpec)
    shapes: tuple[Shape, ...] = ()
    reports: ReportSpec = field(default_factory=ReportSpec)
    costs: CostModel = field(default_factory=CostModel)
    faults: tuple[Fault, ...] = ()
    orders: tuple[Order, ...] = ()
    policy: PolicySettings = field(default_factory=PolicySettings)
    round_every_ms: int = 60_000
    # a broker further behind the journal is granted nothing
    lag_limit_entries: int = ControlSettings().lag_limit_entries
    duration_ms: int = 3_600_000
    end_ms: int = 600_000  # the part of the run that counts as its end


def check(scenario: Scenario) -> None:
    """Raise ConfigError for times that do not fit together, and for events that cannot happen."""
    tick = scenario.reports.every_ms
    if scenario.round_every_ms % tick or scenario.duration_ms % scenario.round_every_ms:
        raise ConfigError(
            f"rounds every {scenario.round_every_ms} ms in {scenario.duration_ms} ms with reports every {tick} ms: "
            "each must be a multiple of the next"
        )
    events: tuple[Shape | Fault | Order, ...] = (*scenario.shapes, *scenario.faults, *scenario.orders)
    for event in events:
        check_event(event, scenario)


def check_event(event: Shape | Fault | Order, scenario: Scenario) -> None:
    """Raise ConfigError for an event that the run ends before, and for a fault of a broker that cannot have it."""
    at_ms = getattr(event, "at_ms", 0)  # most shapes begin with the run
    if at_ms > scenario.duration_ms:
        minutes = scenario.duration_ms / MINUTE_MS
        raise ConfigError(
            f"at={at_ms / MINUTE_MS:g}m is after the end of the run, which takes {minutes:g}m: "
            "give eval a longer duration=…, or begin earlier"
        )
    if isinstance(event, Fault):
        _check_broker(event, scenario)


def _check_broker(fault: Fault, scenario: Scenario) -> None:
    known = {f"b{number + 1}" for number in range(scenario.cluster.brokers)}
    joining = {fault.broker for fault in scenario.faults if fault.kind == JOIN}
    if fault.kind == JOIN and fault.broker in known:
        raise ConfigError(f"{sorted(known & joining)} are there from the start and cannot join")
    if fault.kind != RESTART and fault.broker not in known | joining:
        raise ConfigError(f"fault {fault.kind} of {fault.broker!r}, which is none of {sorted(known | joining)}")
