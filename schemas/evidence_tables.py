"""What rounds and the control step decided: written before the journal's entry, counted only when one names them."""

from __future__ import annotations

from controller.domain.load import RESOURCES
from schemas.record import BOOLEAN, DOUBLE, LONG, STRING, Field, Record, TableOptions


def _options(*key: str) -> TableOptions:
    return TableOptions(key=key, statistics=("at_ms", "attempt_id"), expires_by="at_ms", kept_as="evidence_days")


_ROUND = Field("round_id", STRING, "", "the round")
_DECIDED_IN = Field("round_id", STRING, "", "the round, or step-INSTANCE-BATCH: the control step decided by itself")
_DECIDED_AT = Field("at_ms", LONG, "ms since epoch", "of a round its time on the axis of the reports, else wall time")
_ATTEMPT = Field("attempt_id", STRING, "", "random id of the write; rows count when a journal entry names it")
_AT = Field("at_ms", LONG, "ms since epoch", "time of the round on the event-time axis of the reports")
_STRATEGY = Field("strategy", STRING, "", "strategy that decided")
_JUDGED = "moves chosen before it included: measured scores or, as steady does, its own estimates; by broker"
_LEVEL = "what the strategy judged the broker against, by its own figures; the mean measured score is in rounds"
_CHALLENGER = Field("challenger", BOOLEAN, "", "ran in shadow beside the live strategy")

ROUNDS = Record(
    "rounds",
    "one evaluation of the whole cluster, also when it decides nothing",
    (
        _ROUND,
        _ATTEMPT,
        _AT,
        Field("mode", STRING, "", "shadow live paused"),
        _STRATEGY,
        _CHALLENGER,
        Field("state_seq", LONG, "", "journal seq its ownership was read at"),
        Field("decisions", LONG, "count", "decisions, skips included"),
        Field("moves", LONG, "count", "transfers and unloads decided"),
        Field("splits", LONG, "count", "splits decided"),
        Field("skips", LONG, "count", "skips"),
        Field("mean_score", DOUBLE, "fraction", "mean score of the eligible brokers", nullable=True),
        Field("max_score", DOUBLE, "fraction", "largest score of the eligible brokers", nullable=True),
        Field("plan_hash", STRING, "", "hash over inputs and decisions; replay must get it again"),
        Field("config_version", STRING, "", "configuration it ran with"),
        Field("code_version", STRING, "", "code it ran with"),
        Field("inputs_json", STRING, "", "what the strategy read, sorted and quantised, JSON"),
        Field("duration_ms", LONG, "ms", "time the evaluation took", nullable=True),
        Field("wall_ms", LONG, "ms since epoch", "wall time of the write"),
        Field("rules", LONG, "", "which rules of the strategy decided; null: 1, those of 0.1.0", nullable=True),
    ),
    _options("round_id", "attempt_id"),
)

DECISIONS = Record(
    "decisions",
    "one decision of a round or of the control step, skips included, with its evidence",
    (
        Field("decision_id", STRING, "", "the decision; journal entries name it as their cause"),
        _DECIDED_IN,
        _ATTEMPT,
        _DECIDED_AT,
        Field("kind", STRING, "", "assign transfer unload split skip"),
        Field("label", STRING, "", "success skip failure"),
        Field("reason", STRING, "", "reason code; its hundred is the band"),
        Field("band", STRING, "", "normal throttled config hard"),
        Field("bundle", STRING, "", "bundle", nullable=True),
        Field("source", STRING, "", "broker it leaves", nullable=True),
        Field("target", STRING, "", "broker it goes to", nullable=True),
        Field("epoch", LONG, "", "epoch of the bundle it was decided on", nullable=True),
        Field("boundary", LONG, "CRC-32", "where to split", nullable=True),
        Field("strategy", STRING, "", "strategy that decided; placement or proposal where the control step did"),
        _CHALLENGER,
        Field("executed", BOOLEAN, "", "the controller carried it out"),
        Field("outcome", STRING, "", "executed, or the reason code why not, as of its round", nullable=True),
        Field("evidence_json", STRING, "", "numbers seen, rule fired, candidates that lost, JSON"),
        Field("before_json", STRING, "", f"what the strategy judged brokers by, {_JUDGED}, JSON"),
        Field("after_json", STRING, "", "the same as predicted after the decision, JSON"),
    ),
    _options("decision_id", "attempt_id"),
)

BROKER_SCORES = Record(
    "broker_scores",
    "score of each broker in a round, and why it was source, target or neither",
    (
        _ROUND,
        _ATTEMPT,
        _AT,
        Field("broker", STRING, "", "broker id"),
        Field("score", DOUBLE, "fraction", "largest weighted short average, as measured; null: unknown", nullable=True),
        Field("mean", DOUBLE, "fraction", _LEVEL, nullable=True),
        Field("hits", LONG, "count", "consecutive rounds above a threshold"),
        Field("eligible", BOOLEAN, "", "has fresh and complete reports and no constraint against it"),
        Field("is_source", BOOLEAN, "", "load was to be moved off it"),
        Field("reason", STRING, "", "reason code", nullable=True),
        *(
            Field(f"{name}_utilisation", DOUBLE, "fraction", f"short average of {name}; null: unknown", nullable=True)
            for name in RESOURCES
        ),
    ),
    _options("round_id", "attempt_id", "broker"),
)
