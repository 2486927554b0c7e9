"""Checks Kafka: whether it answers and is that of the journal, its topics' settings, who speaks on them, what lags.

`judge_…` take what was read, so that they are tested without a Kafka.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial

from kafka.errors import KafkaError

from controller.bus.cluster import check_answers, cluster_id
from controller.bus.failures import NoRight
from controller.bus.reach import SourceSettings, read_reach
from controller.bus.scan import scan
from controller.bus.topic_owner import TopicOwner, newest_owner
from controller.bus.topics import TopicFacts, TopicNames, TopicSpec, check_topic, describe_topics, live_topics
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, BallastError, ConfigError, describe_error, few_text
from controller.domain.events import Heartbeat, parse_heartbeat
from controller.domain.ids import Session
from controller.domain.state import METADATA, ClusterState, is_foreign
from controller.operations.doctor.finding import Clock, Finding, Page, fine, note, severe, warning
from controller.operations.liveness import SILENT_AFTER_MS, Heard, engine_text, last_word
from controller.operations.text import count_text, duration_text

ANSWER_MS = 5_000
LISTEN_BACK_MS = 20_000  # of heartbeats, which come every few seconds
LAG_RECORDS = 1_000


def check_kafka(settings: Settings, state: ClusterState | None, clock: Clock) -> Iterator[Finding]:
    """Everything that Kafka tells. `state`: of the journal; None where there is none to compare with."""
    kafka = settings.kafka
    try:
        check_answers(kafka.bootstrap_servers, kafka.client, ANSWER_MS)
    except BallastError as error:
        remedy = "start it, or say where it is: kafka.bootstrap_servers, kafka.client. "
        yield severe("kafka", str(error), remedy + _without_kafka(state), Page.CLUSTER)
        return
    try:
        yield from _check_answering(settings, state, clock)
    except NoRight as error:
        yield severe("kafka", str(error), "give this login the rights of a viewer", Page.RIGHTS)
    except KafkaError as error:
        yield severe("kafka", f"it failed while it was read: {describe_error(error)}", "see its logs", Page.CLUSTER)


def _without_kafka(state: ClusterState | None) -> str:
    """What an outage of Kafka means for clients, by who decides ownership; both where no broker tells."""
    authority = state.authority if state is not None else None
    if authority == METADATA:
        return "Pulsar's brokers serve on; no load moves by Ballast meanwhile"
    ours = "one lease after Kafka went, until it is back"
    if authority is not None:
        return f"Brokers and services stop serving {ours}"
    return f"Reference brokers and sharded services stop serving {ours}; Pulsar's brokers serve on"


def _check_answering(settings: Settings, state: ClusterState | None, clock: Clock) -> Iterator[Finding]:
    """The checks of a Kafka that answers. Raises KafkaError, BallastError."""
    kafka, names = settings.kafka, settings.kafka.topics
    yield from judge_cluster(cluster_id(kafka.bootstrap_servers, kafka.client, ANSWER_MS), state)
    specs = live_topics(names)
    facts = describe_topics(kafka.bootstrap_servers, [spec.name for spec in specs], kafka.client, ANSWER_MS)
    yield from judge_topics(specs, facts)
    if state is None:
        return
    if names.owner in facts:
        owner = newest_owner(kafka.bootstrap_servers, names.owner, kafka.client, ANSWER_MS)
        yield from judge_owner(owner, state)
    heard = last_word(kafka.bootstrap_servers, kafka.client, names, ANSWER_MS)
    yield from judge_controller(heard, state, clock())
    if any(topic in facts for topic in names.all_heartbeats):
        yield from judge_agents(_hear_agents(settings, names, facts), state, settings.control.lag_limit_entries)
    topics = tuple(name for name in names.control if name in facts and name not in names.all_heartbeats)
    reach = read_reach(SourceSettings(kafka.bootstrap_servers, topics, kafka.client), ANSWER_MS)
    ends = {topic: {number: at.end for number, at in held.items()} for topic, held in reach.items()}
    yield from judge_lag(ends, state)


def judge_cluster(found: str, state: ClusterState | None) -> Iterator[Finding]:
    """Whether it is the Kafka whose offsets the journal holds."""
    journaled = state.kafka.get("cluster_id") if state is not None else None
    if journaled and journaled != found:
        text = f"this Kafka is cluster {found}, the journal's offsets are of {journaled}"
        remedy = f"name the right one, or accept this one: `ballast run --accept-new-kafka {found}`"
        yield severe("kafka", text, remedy, Page.ANOTHER_KAFKA)
    else:
        yield fine("kafka", f"cluster {found} answers")


def judge_topics(specs: list[TopicSpec], facts: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """Whether the topics are there, with the settings that they need."""
    missing = [spec.name for spec in specs if spec.name not in facts]
    if missing:
        remedy = "the next start of `ballast run` creates them; is kafka.topic_prefix right?"
        yield severe("topics", f"there is no topic {', '.join(missing)}", remedy, Page.CLUSTER)
    faults = [fault for spec in specs if spec.name in facts for fault in _judge_topic(spec, facts[spec.name])]
    yield from faults
    if not missing and not faults:
        yield fine("topics", f"{len(facts)} topics with the settings they need")


def _judge_topic(spec: TopicSpec, found: TopicFacts) -> Iterator[Finding]:
    try:
        check_topic(spec, found)
    except ConfigError as error:
        text, _, remedy = str(error).partition(": ")
        yield severe("topics", text, remedy, Page.CLUSTER)
    if 0 <= found.retention_ms < spec.retention_ms or (spec.retention_ms < 0 <= found.retention_ms):
        wanted = "for ever" if spec.retention_ms < 0 else duration_text(spec.retention_ms)
        text = f"topic {spec.name} keeps records for {duration_text(found.retention_ms)}, meant is {wanted}"
        remedy = (
            f"`kafka-configs --alter --entity-type topics --entity-name {spec.name} --add-config "
            f"retention.ms={spec.retention_ms}`: a controller that is down for longer misses records"
        )
        yield warning("topics", text, remedy, Page.CLUSTER)
    if found.min_insync_replicas > found.replication_factor:
        text = (
            f"topic {spec.name} has min.insync.replicas={found.min_insync_replicas} and "
            f"{found.replication_factor} replicas, so nothing can be written"
        )
        yield severe("topics", text, "add replicas, or lower min.insync.replicas", Page.CLUSTER)


def judge_owner(owner: TopicOwner | None, state: ClusterState) -> Iterator[Finding]:
    """Whether the topics belong to this journal."""
    if owner is not None and is_foreign(state.journal_id, owner.journal_id):
        text = f"the topics belong to journal {owner.journal_id} at {owner.tables}, the tables to {state.journal_id}"
        remedy = "are --conf, tables.root and kafka.topic_prefix right? Two journals need two prefixes"
        yield severe("topics", text, remedy, Page.ANOTHER_JOURNAL)


def judge_controller(heard: Heard | None, state: ClusterState, now_ms: int) -> Iterator[Finding]:
    """Whether the controller speaks, and what Spark it runs on."""
    if heard is not None and is_foreign(state.journal_id, heard.journal_id):
        text = f"controller {heard.instance} of journal {heard.journal_id} speaks on these topics"
        yield severe("controller", text, "end it, or give it topics of its own", Page.ANOTHER_JOURNAL)
        return
    if not state.controller_running:
        return  # `check_controller` says so
    silent_ms = None if heard is None else max(0, now_ms - heard.at_ms)
    if heard is None or silent_ms is None or silent_ms > SILENT_AFTER_MS:
        since = "never" if silent_ms is None else f"{duration_text(silent_ms)} ago"
        text = f"the controller {state.instance} is silent, last heard {since}"
        yield severe("controller", text, "see the log of `ballast run`, or start it again", Page.CONTROLLER)
        return
    yield fine("controller", f"{heard.instance} was heard {duration_text(silent_ms)} ago")
    if heard.engine:
        yield fine("spark", engine_text(heard.engine))
    else:
        yield note("spark", "the controller does not say what it runs on: it has just started, or is an older version")


def judge_agents(applied: Mapping[Session, int], state: ClusterState, limit: int) -> Iterator[Finding]:
    """Whether the live agents speak and follow the journal. `applied`: the newest seq that each of them named."""
    live = [broker.session for broker in state.live_brokers()]
    silent = [session.broker for session in live if session not in applied]
    if silent and state.controller_running:
        text = f"alive by the journal, and not heard in the last {duration_text(LISTEN_BACK_MS)}: {few_text(silent)}"
        yield warning("agents", text, "see their hosts and logs; their leases are running out", Page.AGENT)
    behind = [s for s in live if s in applied and state.seq - applied[s] > limit]
    if behind:
        named = [f"{s.broker} by {count_text(state.seq - applied[s], 'entry', 'entries')}" for s in behind]
        text = f"behind the journal, so granted nothing: {few_text(named)}"
        yield warning("agents", text, "see /healthz of these agents, and whether they reach the tables", Page.AGENT)


def judge_lag(ends: Mapping[str, Mapping[str, int]], state: ClusterState) -> Iterator[Finding]:
    """How many records of the control topics the journal does not hold yet. `ends`: topic -> partition -> end."""
    lags = {
        topic: sum(max(0, end - state.offsets.get(topic, {}).get(number, end)) for number, end in partitions.items())
        for topic, partitions in ends.items()
    }
    waiting = sum(lags.values())
    told = ", ".join(f"{lag} in {topic}" for topic, lag in sorted(lags.items()) if lag)
    if waiting <= LAG_RECORDS:
        records = count_text(waiting, "record")
        yield fine("lag", f"{records} of control topics not in the journal's offsets{told and f': {told}'}")
        return
    remedy = "if no controller runs, start one; else see batch times in its log: commits of the table store take long"
    yield warning("lag", f"{waiting} records wait for the controller: {told}", remedy, Page.SLOW_STORE)


def _hear_agents(settings: Settings, names: TopicNames, there: Container[str]) -> dict[Session, int]:
    """The newest seq that each session named in the last heartbeats. Raises KafkaUnavailable, TopicUnreadable.

    `there`: the topics that exist.
    """
    applied: dict[Session, int] = {}

    def hear(topic: str, _: int, value: bytes | None) -> None:
        try:
            record = parse_heartbeat(value or b"")
        except BadRecord:
            return  # the controller quarantines it
        if isinstance(record, Heartbeat) and names.speaks_for(topic, record.session.broker):
            applied[record.session] = max(record.applied_seq, applied.get(record.session, 0))

    kafka = settings.kafka
    for topic in (name for name in names.all_heartbeats if name in there):
        scan(
            kafka.bootstrap_servers,
            topic,
            partial(hear, topic),
            kafka.client,
            back_ms=LISTEN_BACK_MS,
            timeout_ms=ANSWER_MS,
        )
    return applied
