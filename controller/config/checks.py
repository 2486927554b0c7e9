"""Rules between keys. Each raises ConfigError with one line that names the keys, their values and what to change."""

from __future__ import annotations

from controller.bus.security import check_client_settings
from controller.config.layers import format_value
from controller.config.placement_values import placement_settings
from controller.config.places import check_no_query
from controller.config.settings import DEFINITIONS, Settings
from controller.config.store_options import check_storage_options
from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import AgentGroups
from controller.domain.settings.agent_groups import check as check_agent_groups
from controller.domain.settings.placement import check as check_placement

LEASE_ABOVE_KAFKA_SESSION_MS = 3_000
POLLS_PER_DEADLINE = 3
HEARTBEATS_PER_LEASE = 3
DEADLINES = tuple(f"control.{name}_deadline_ms" for name in ("assign", "accept", "release", "split"))


def check_all(settings: Settings) -> None:
    """Check every rule that only depends on the settings."""
    between_two = (_whole_panes, _poll, _heartbeat, _report_age, _retention, _bundles)
    of_kafka = (_client, _agent_groups)
    of_tables = (_addresses, _storage_options)
    for rule in (*between_two, _strategies, _providers, _weights, *of_kafka, _placement, *of_tables, _http):
        rule(settings)


def check_lease(settings: Settings, kafka_session_timeout_ms: int, single_node: bool) -> None:
    """Check that a lease outlasts Kafka's session timeout by 3 s; otherwise a lost Kafka broker ends every lease.

    A single node is exempt, as everything stops without it. Called at start with Kafka's values.
    """
    least_ms = kafka_session_timeout_ms + LEASE_ABOVE_KAFKA_SESSION_MS
    if not single_node and settings.control.lease_ms <= least_ms:
        raise ConfigError(
            f"control.lease_ms = {settings.control.lease_ms} is not allowed with Kafka's session timeout of "
            f"{kafka_session_timeout_ms} ms: give more than {least_ms} (profile cluster has 15000)"
        )


def _refuse(settings: Settings, path: str, against: str, allowed: str) -> None:
    value, other = format_value(settings.value(path)), format_value(settings.value(against))
    raise ConfigError(
        f"{path} = {value} ({settings.origin(path)}) does not fit {against} = {other} ({settings.origin(against)}): "
        f"give {allowed}"
    )


def _whole_panes(settings: Settings) -> None:
    pane_s = settings.loads.pane_s
    for path in ("loads.short_horizon_s", "rounds.round_interval_s"):
        if settings.value(path) % pane_s:
            _refuse(settings, path, "loads.pane_s", f"a multiple of {pane_s}")


def _poll(settings: Settings) -> None:
    shortest = min(DEADLINES, key=settings.value)
    most_ms = settings.value(shortest) // POLLS_PER_DEADLINE
    if settings.agent.journal_poll_ms > most_ms:
        _refuse(settings, "agent.journal_poll_ms", shortest, f"at most a third of the shortest deadline, {most_ms}")


def _heartbeat(settings: Settings) -> None:
    most_ms = settings.control.lease_ms // HEARTBEATS_PER_LEASE
    if settings.control.heartbeat_ms > most_ms:
        _refuse(settings, "control.heartbeat_ms", "control.lease_ms", f"at most a third of the lease, {most_ms}")


def _report_age(settings: Settings) -> None:
    least_s = 2 * settings.agent.report_interval_ms / 1000
    if settings.rounds.max_report_age_s < least_s:
        _refuse(
            settings, "rounds.max_report_age_s", "agent.report_interval_ms", f"at least two intervals, {least_s:g} s"
        )


def _retention(settings: Settings) -> None:
    kept = settings.retention
    if kept.journal_days < kept.evidence_days:  # only rounds that the journal names count
        _refuse(settings, "retention.journal_days", "retention.evidence_days", f"at least {kept.evidence_days:g}")
    if kept.loads_days * 24 < settings.loads.retention_hours:
        least = settings.loads.retention_hours / 24
        _refuse(settings, "retention.loads_days", "loads.retention_hours", f"at least as long, {least:g} days")


def _bundles(settings: Settings) -> None:
    path, against = "split.default_number_of_namespace_bundles", "split.namespace_maximum_bundles"
    if settings.value(path) > settings.value(against):
        _refuse(settings, path, against, f"at most {settings.value(against)}")


def _strategies(settings: Settings) -> None:
    rounds = settings.rounds
    if rounds.strategy in rounds.challengers or len(set(rounds.challengers)) < len(rounds.challengers):
        _refuse(settings, "rounds.challengers", "rounds.strategy", "each strategy once")
    _check_strategies(settings, "rounds.strategy", (rounds.strategy,))
    _check_strategies(settings, "rounds.challengers", rounds.challengers)


def _check_strategies(settings: Settings, path: str, names: tuple[str, ...]) -> None:
    if set(names) <= {DEFINITIONS["rounds.strategy"].default}:
        return  # so that the command line need not import numpy
    from controller.policy.strategies import get

    for name in names:
        try:
            get(name)
        except ConfigError as error:
            raise ConfigError(
                f"{path} = {format_value(name)} ({settings.origin(path)}) is not allowed: {error}"
            ) from None


def _providers(settings: Settings) -> None:
    path = "weighted.load_awareness_providers"
    names = settings.value(path)
    if not names:
        return  # so that the command line need not import numpy
    from controller.policy.strategies.weighted.figures import providers_of

    try:
        providers_of(names)
    except ConfigError as error:
        raise ConfigError(f"{path} = {format_value(names)} ({settings.origin(path)}) is not allowed: {error}") from None


def _weights(settings: Settings) -> None:
    weights = [name for name in type(settings.shedding).model_fields if name.endswith("_weight")]
    if not any(getattr(settings.shedding, name) for name in weights):
        raise ConfigError(f"shedding: {', '.join(weights)} are all 0: give at least one of them a number above 0")


def _placement(settings: Settings) -> None:
    try:
        check_placement(placement_settings(settings))
    except ConfigError as error:
        raise ConfigError(f"placement: {error}") from None


def _http(settings: Settings) -> None:
    """A key that would have no effect is refused, because its operator believes in it."""
    given, both = settings.http, "http.tls_certificate and http.tls_key"
    if (given.tls_certificate is None) != (given.tls_key is None):
        alone = "http.tls_key" if given.tls_certificate is None else "http.tls_certificate"
        raise ConfigError(f"{alone} ({settings.origin(alone)}) is given alone: TLS needs both, {both}")
    if given.client_authority is not None and given.tls_certificate is None:
        origin = settings.origin("http.client_authority")
        raise ConfigError(
            f"http.client_authority ({origin}) has no effect without TLS: give {both} too (for clients alone, that "
            "check servers: http.server_authority)"
        )


def _addresses(settings: Settings) -> None:
    for path in ("tables.root", "tables.checkpoints"):
        check_no_query(settings.value(path), f"{path} ({settings.origin(path)})")


def _storage_options(settings: Settings) -> None:
    check_storage_options(settings.tables.storage_options, settings.origin("tables.storage_options"))


def _agent_groups(settings: Settings) -> None:
    try:
        check_agent_groups(AgentGroups.of_mapping(settings.kafka.agent_groups))
    except ConfigError as error:
        raise ConfigError(f"kafka.agent_groups ({settings.origin('kafka.agent_groups')}): {error}") from None


def _client(settings: Settings) -> None:
    try:
        check_client_settings(settings.kafka.client)
    except ConfigError as error:
        raise ConfigError(f"kafka.client ({settings.origin('kafka.client')}): {error}") from None
