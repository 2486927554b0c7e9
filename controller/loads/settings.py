"""The settings of the loads query, as one plain value; `jobs.loads_runner` makes it from the configuration.

Times are in ms unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups

WRITERS = ("auto", "delta_rs", "spark")


@dataclass(frozen=True)
class LoadsSettings:
    """Settings of the loads query. Raises ConfigError for invalid values and combinations."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic: str = "load-reports"  # several separated by commas, where agents are in groups
    agent_groups: AgentGroups = NO_GROUPS
    group_of_topic: Mapping[str, str] = field(default_factory=dict)
    # SASL and TLS as Spark's source takes them: kafka.*
    kafka_options: Mapping[str, str | SecretStr] = field(default_factory=dict)
    tables_root: str = "run/tables"
    storage_options: Mapping[str, str] = field(default_factory=dict)  # delta-rs's, for object stores
    checkpoint: str = "run/checkpoints/loads"
    starting_offsets: str = "earliest"  # for a new checkpoint only
    max_offsets_per_trigger: int | None = 20_000  # bounds one batch of a backlog: 4,000 brokers at 5 s
    trigger_ms: int = 2_000
    pane_ms: int = 10_000
    short_horizon_ms: int = 60_000
    long_half_life_ms: int = 3_600_000
    retention_ms: int = 24 * 3_600_000  # reports older than this before the newest pane are quarantined as late
    max_future_ms: int = 60_000  # further ahead of the clock, a report is quarantined; Kafka's clock may differ a bit
    max_report_bytes: int = 10 * 1024 * 1024
    max_report_bundles: int = 20_000
    conservation_tolerance: float = 0.01  # of the total; totals and bundles are sampled at slightly different times
    conservation_slack: float = 1.0  # absolute, for totals close to zero
    quarantine_raw_bytes: int = 65_536  # of a bad record; the whole one stays in Kafka at its offset
    writer: str = "auto"  # auto, delta_rs (the driver computes and writes) or spark (Spark does)
    writer_threshold_rows: int = 2_000_000  # with auto: rows of a batch from which on Spark writes it
    file_from_rows: int = 50_000  # panes of bundles from which a task itself makes a file of them, some MB
    tasks_store_files: bool = False  # in an object store; elsewhere the driver does
    recover_ms: int = 600_000  # how far back a start looks for the newest rows of *_load

    def __post_init__(self) -> None:
        if self.writer not in WRITERS:
            raise ConfigError(f"loads.writer = {self.writer!r}: must be one of {', '.join(WRITERS)}")
        for name in ("pane_ms", "short_horizon_ms", "long_half_life_ms", "retention_ms",
                     "max_report_bytes", "max_report_bundles", "quarantine_raw_bytes", "recover_ms"):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ConfigError(f"loads.{name} = {getattr(self, name)!r}: must be above 0")
        if self.short_horizon_ms % self.pane_ms:
            raise ConfigError(
                f"loads.short_horizon_ms = {self.short_horizon_ms}: must be a multiple of pane_ms = {self.pane_ms}"
            )
        if self.retention_ms < self.short_horizon_ms:
            raise ConfigError(f"loads.retention_ms = {self.retention_ms}: must be at least short_horizon_ms")
