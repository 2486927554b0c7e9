"""The records that an agent sends, as mappings (docs/records.md). Pure.

Every record names the whole session. `sent_ms` is wall-clock time, for people only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.agent.handover.actions import Answer
from controller.brokers.runtime import BrokerRuntime
from controller.domain.events import VERSION
from controller.domain.ids import Bundle, Session


def session_fields(session: Session) -> dict[str, Any]:
    """The four parts of a session, which every record carries."""
    return {
        "broker": session.broker,
        "incarnation": session.incarnation,
        "nonce": session.nonce,
        "session": session.number,
    }


def heartbeat(
    session: Session, applied_seq: int, sent_ms: int, info: Mapping[str, Any], journal_id: str | None = None
) -> dict[str, Any]:
    """A heartbeat. `info` is made by `describe_broker`.

    `journal_id`: the journal that the agent follows; empty while it has read none, None for a journal without an id.
    """
    base = {"v": VERSION, **session_fields(session), "applied_seq": applied_seq, "sent_ms": sent_ms}
    named = {} if journal_id is None else {"journal_id": journal_id}
    return {**base, "info": dict(info), **named}


def describe_broker(
    runtime: BrokerRuntime, lookup_url: str, capacity: Mapping[str, Any], process: Mapping[str, Any]
) -> dict[str, Any]:
    """What a heartbeat says about the broker. `process`: host, pid, started_ms."""
    return {
        "runtime": runtime.kind,
        "authority": runtime.authority,
        "can_fence": runtime.can_fence,
        "version": runtime.version,
        "lookup_url": lookup_url,
        "data_address": runtime.data_address,
        "capacity": dict(capacity),
        **process,
    }


def event(session: Session, kind: str, applied_seq: int, sent_ms: int, **fields: Any) -> dict[str, Any]:
    """A record of `broker-events`; `fields` depend on the kind, those that are None are left out."""
    base = {"v": VERSION, "kind": kind, **session_fields(session), "applied_seq": applied_seq, "sent_ms": sent_ms}
    return {**base, **{name: value for name, value in fields.items() if value is not None}}


def answer_event(session: Session, said: Answer, applied_seq: int, sent_ms: int) -> dict[str, Any]:
    """An answer of the hand-over core, as a broker event."""
    return event(
        session,
        said.kind,
        applied_seq,
        sent_ms,
        bundle=str(said.bundle),
        epoch=said.epoch,
        reason=said.reason or None,
        data=dict(said.data) or None,
    )


def serving_event(
    session: Session, kind: str, serving: Mapping[Bundle, int], applied_seq: int, sent_ms: int
) -> dict[str, Any]:
    """An `inventory` or `observed` event: every bundle served, with its epoch."""
    return event(session, kind, applied_seq, sent_ms, serving={str(b): epoch for b, epoch in serving.items()})


def assign_request(broker: str, bundle: Bundle, sent_ms: int) -> dict[str, Any]:
    """A request to assign a bundle without an owner, because a client looked up one of its topics here."""
    return {"v": VERSION, "broker": broker, "bundle": str(bundle), "sent_ms": sent_ms}
