"""The table of the usage model: what rounds have learned of drivers, brokers and bundles (`controller/policy/usage`).

Four kinds of rows in one table, so that one commit replaces the whole model. The columns of brokers and bundles are the
fields of `BrokerStates` and `BundleStates`, under their names.
"""

from __future__ import annotations

from schemas.record import DOUBLE, LONG, STRING, Field, Record, TableOptions

_CPU = "% of a core"
_DRIVERS = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")


def _number(name: str, unit: str, comment: str) -> Field:
    return Field(name, DOUBLE, unit, comment, nullable=True)


USAGE_MODEL = Record(
    "usage_model",
    "what rounds have learned of CPU usage, at most 20,000 bundles; each round replaces it, older versions are its "
    "history",
    (
        Field("kind", STRING, "", "model driver broker bundle"),
        Field("name", STRING, "", "of the driver, broker or bundle; model: usage; constant: what no traffic explains"),
        Field("at_ms", LONG, "ms since epoch", "the newest round learned from, on the axis of the reports"),
        Field(
            "hash", STRING, "", "model: SHA-256 over all of it; the journal entry of the round names it", nullable=True
        ),
        Field("layout", STRING, "", "model: version of the model; another version does not read it", nullable=True),
        Field("rounds", LONG, "count", "model: rounds learned from", nullable=True),
        _number("noise", "fraction", "model: standard deviation of a reading of usage"),
        _number("wander", "fraction squared", "model: variance of the steps of brokers, without noise; null: unknown"),
        Field("evidence_rounds", LONG, "count", "model: rounds in the averages of the drivers", nullable=True),
        _number("usual_cost", _CPU, "model: what all traffic of the last rounds costs on average"),
        _number("share", "fraction", "driver: of the CPU that it accounts for"),
        _number("unit", f"{_CPU} per message/s or byte/s", "driver: what traffic costs on the usual broker"),
        *(_number(f"with_{name}", "", f"driver: mean weighted product with {name}") for name in _DRIVERS),
        _number("with_constant", "", "driver: mean weighted product with 1"),
        _number("with_usage", "", "driver: mean weighted product with usage, relative to its mean"),
        _number("incarnation", "", "broker: the process it is known of; -1 none"),
        _number("base", _CPU, "broker: usage without traffic; constant: the common base"),
        _number("base_variance", f"({_CPU}) squared", "broker: variance of the estimated base"),
        _number("speed", "ratio", "broker: what work costs there, 1 at the usual broker"),
        _number("speed_variance", "ratio squared", "broker: variance of the estimated speed"),
        _number("trend", "standard deviations", "broker: how far usage was from what was expected of late"),
        _number("step", "fraction", "broker: change of its load in the last round, of the mean usage; NaN unknown"),
        _number("pinned", "ratio", "broker: variance of its usage as a whole, to that of its parts"),
        _number("error", _CPU, "broker: standard deviation of its estimated usage; NaN unknown"),
        _number("passing", _CPU, "broker: usage beyond chance that has not lasted yet"),
        _number(
            "above",
            "rounds",
            "rounds running beyond chance (broker), above the usual load or, negative, below it (bundle)",
        ),
        _number("stood", "rounds", "rounds since a rise became the usual; 0: it is not recent"),
        _number("burst", "rounds", "length of the longest remembered burst; 0: none"),
        _number("since", "rounds", "rounds since a burst, or a pause of a bundle, ended"),
        _number("spikes", "count", "broker: rises that were over at once; each counts less with every round"),
        _number("gave", "% of a core", "broker: what bundles that left were thought to take, until readings tell"),
        _number("blame", "", "broker: how much likelier its bundles keep it busy than others do; logarithm of odds"),
        _number("surplus_in", "bytes/s", "broker: received beyond the bytes of its bundles"),
        _number("surplus_out", "bytes/s", "broker: sent beyond the bytes of its bundles"),
        _number("rising_in", "rounds", "broker: rounds running that it received many more bytes than that"),
        _number("rising_out", "rounds", "broker: rounds running that it sent many more bytes than that"),
        _number("reading", _CPU, "broker: its usage as read in the last round; NaN unknown"),
        _number("read_ms", "ms since epoch", "broker: when that figure came"),
        _number("stands", "", "broker: 1 when a figure came again in a later round, less with each that has not since"),
        _number("changed_ms", "ms since epoch", "broker: last sudden change that no figure shows yet; -1 none"),
        _number("began_ms", "ms since epoch", "broker: first of such changes; -1 none"),
        _number("factor", "ratio", "bundle: what its traffic costs, 1 as usual"),
        _number("variance", "ratio squared", "bundle: variance of the estimated factor"),
        _number("usual", _CPU, "bundle: the load that lasts, on the usual broker with the usual factor; -1 unknown"),
        _number("often", "count", "bundle: times running that a burst came back after no longer than such bursts last"),
        _number("age", "rounds", "bundle: rounds seen"),
        _number("carried", _CPU, "bundle: its load in the last round, as usual"),
        Field("carrier", STRING, "", "bundle: the broker that carried it; null: none", nullable=True),
    ),
    # An hour of versions: at 20,000 bundles and a round a minute 80 MB at most.
    TableOptions(
        checkpoint_interval=100,
        log_retention_minutes=60,
        deleted_file_retention_minutes=60,
        tended_by_writer=True,
        key=("kind", "name"),
        statistics=("kind", "at_ms"),
    ),
)
