"""The options of an agent, as plain values. Times in ms.

`ballast agent` converts the configuration into them (controller/cli/run/agent.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Times and limits of one agent. `heartbeat_ms` is at most a third of `lease_ms`."""

    lease_ms: int = 6_000
    heartbeat_ms: int = 1_000
    inventory_interval_ms: int = 10_000
    report_interval_ms: int = 5_000
    journal_poll_ms: int = 1_500
    lookup_wait_ms: int = 5_000
    leave_timeout_ms: int = 30_000
    top_k_bundles: int = 100
    message_throughput_as_bandwidth: bool = False
    nic_bytes_per_s: float | None = None
    take_over: bool = False  # start beside a live process of this broker id, which then exits

    def __post_init__(self) -> None:
        if self.heartbeat_ms * 3 > self.lease_ms:
            raise ValueError(
                f"heartbeat_ms {self.heartbeat_ms} is more than a third of lease_ms {self.lease_ms}: "
                "one lost heartbeat could cost the lease"
            )
