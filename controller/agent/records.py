"""The records an agent sends, as mappings (docs/records.md). Pure.

Every record names the whole session. `sent_ms` is wall time, for people only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.agent.handover.actions import Answer
from controller.domain.events import VERSION
from controller.domain.ids import Bundle, Session


def session_fields(session: Session) -> dict[str, Any]:
    """The four parts of a session as every record carries them."""
    return {
        "broker": session.broker,
        "incarnation": session.incarnation,
        "nonce": session.nonce,
        "session": session.number,
    }


def heartbeat(
    session: Session, applied_seq: int, sent_ms: int, info: Mapping[str, Any], journal_id: str | None = None
) -> dict[str, Any]:
    """`info`: runtime, can_fence, version, lookup_url, data_address, capacity, host, pid, started_ms.

    `journal_id`: the journal that is followed; empty: none has been read yet; None: one that has no id.
    """
    base = {"v": VERSION, **session_fields(session), "applied_seq": applied_seq, "sent_ms": sent_ms}
    named = {} if journal_id is None else {"journal_id": journal_id}
    return {**base, "info": dict(info), **named}


def event(session: Session, kind: str, applied_seq: int, sent_ms: int, **fields: Any) -> dict[str, Any]:
    """A record of broker-events; `fields` as the kind needs them, None left out."""
    base = {"v": VERSION, "kind": kind, **session_fields(session), "applied_seq": applied_seq, "sent_ms": sent_ms}
    return {**base, **{name: value for name, value in fields.items() if value is not None}}


def answer_event(session: Session, said: Answer, applied_seq: int, sent_ms: int) -> dict[str, Any]:
    """An answer of the hand-over core as a broker event."""
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
    """`inventory` or `observed`: everything served, with epochs."""
    return event(session, kind, applied_seq, sent_ms, serving={str(b): epoch for b, epoch in serving.items()})


def assign_request(broker: str, bundle: Bundle, sent_ms: int) -> dict[str, Any]:
    """Somebody looked up a topic of an unowned bundle here."""
    return {"v": VERSION, "broker": broker, "bundle": str(bundle), "sent_ms": sent_ms}
