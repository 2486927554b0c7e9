"""Configuration: a YAML file, the environment and `--set`. A process starts with settings, or ends with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.config.load import load_settings
from controller.config.policy_values import control_settings, policy_settings
from controller.config.settings import DEFINITIONS, HIDDEN, Settings
from controller.domain.errors import ConfigError
from tests.fuzz.hostile import HOSTILE, LONG, Raw, change, mangle, write
from tests.fuzz.limits import check_error, fuzzing, read_or_refuse

PLAIN = {path: d.default for path, d in DEFINITIONS.items() if isinstance(d.default, bool | int | float | str)}
PLACEMENT = {
    "isolation": {"a": {"namespaces": ["t/.*"], "primary": ["a.*"], "secondary": ["b"], "min_available": 2}},
    "failure_domains": {"d": ["a:1", "b:1"], "e": ["c:1"]},
    "anti_affinity": {"g": ["t/n", "t/m"]},
}
FILES: list[dict[str, Any]] = [
    {"profile": "cluster", "rounds": {"strategy": "headroom", "challengers": ["steady"], "round_interval_s": 60}},
    {
        "kafka": {
            "client": {"security_protocol": "SSL", "request_timeout_ms": 9_000},
            "agent_groups": {"east": ["a.*:1"]},
        }
    },
    {"loadBalancerSheddingIntervalMinutes": 1, "pulsar": {"loadBalancerBrokerOverloadedThresholdPercentage": 85}},
    {"placement": PLACEMENT, "tables": {"root": "tables", "storage_options": {"aws_region": "x"}}},
    {"agent": {"max_report_bundles": 9, "override_broker_nic_speed_gbps": 10.0}, "http": {"token_file": "t"}},
    {"weighted": {"load_awareness_providers": ["cpu"]}, "broker": {"max_bundles": None}, "split": {"enabled": False}},
]
TOKENS = st.sampled_from([Raw(token) for token in (
    "2001-99-99", "2001-02-30", "2001-01-01 25:00:00", "0b_", "0x_", "0o8", "1:99", "1_000", "1e3", ".inf", ".nan",
    "~", "on", "!!int x",
    "!!float x", "!!binary '%'", "!!timestamp x", "!!set {a, b}", "!!pairs [a]", "!!python/object:os.system x",
    "!x y", "&a [*a]",
    "*none", "[? [a] : b]", "{[a]: b}", "{{a: 1}: 2}", "{<<: 5}", "{<<: [1]}", "{a: 1, a: 2}", "|", "> x", "'",
    "%TAG", "---", "...", "\t",
    "a: b: c", "0b" + "1" * 20_000, "- a", "@", "`", "? ", "=", "1" * 5_000, "-", "[a,,b]", "0o" + "7" * 9_000,
    "190:20:30",
)])  # fmt: skip
VALUES = HOSTILE | TOKENS | TOKENS


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file of the shipped keys, some of which were changed."""
    tree: Any = dict(FILES[draw(st.integers(0, len(FILES) - 1))])
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(sorted(PLAIN)))
        section, name = path.split(".")
        inner = tree.get(section)
        tree[section] = {**(inner if isinstance(inner, dict) else {}), name: PLAIN[path]}
    tree = change(draw, [tree], VALUES)
    text = write(tree, ascii_only=draw(st.booleans()))
    if isinstance(tree, dict) and draw(st.booleans()):  # as people write it
        text = "".join(f"{name}: {write(inner)}\n" for name, inner in tree.items())
    return mangle(draw, text)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's file. What only the first start imports has been imported."""
    path = tmp_path_factory.mktemp("conf") / "ballast.yaml"
    path.write_text("rounds: {strategy: headroom}")
    check_usable(load_settings(path, None, (), {}), path)
    return path


def load(file: Path, raw: bytes, env: dict[str, str] | None = None, sets: tuple[str, ...] = ()) -> Settings | None:
    """What a process starts with, or None where it does not start."""
    file.write_bytes(raw)
    size = len(raw) + sum(map(len, (*(env or {}).values(), *sets)))
    return read_or_refuse(lambda path: load_settings(path, None, sets, env or {}), file, ConfigError, 4 * size, 2**24)


def check_usable(found: Settings, file: Path) -> None:
    """Every part of a process gets its values, and the numbers fit into 64 bits."""
    for values in (policy_settings(found), control_settings(found)):
        check_numbers(values)
    shown = json.dumps(found.dump(), default=str)
    assert len(found.version) == 12
    assert shown
    tree: dict[str, Any] = {"profile": found.profile}
    for path, row in found.dump().items():
        section, name = path.split(".")
        if row["origin"] != "default":
            tree.setdefault(section, {})[name] = row["value"]
    if HIDDEN not in shown:
        again = load(file, yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))
        assert again is not None
        assert again.version == found.version


def check_numbers(values: Any) -> None:
    """Of dataclasses, however deep."""
    if isinstance(values, tuple | list):
        for value in values:
            check_numbers(value)
    elif hasattr(values, "__dataclass_fields__"):
        for name in values.__dataclass_fields__:
            check_numbers(getattr(values, name))
    elif isinstance(values, int | float):
        assert abs(values) < 2**63, values


@fuzzing(10, 1_500)
@given(files())
def test_a_file_is_loaded_or_refused(file: Path, raw: bytes) -> None:
    found = load(file, raw)
    if found is not None:
        check_usable(found, file)


TEXTS = st.text(max_size=9) | TOKENS.map(str) | HOSTILE.map(lambda value: write(value))


@fuzzing(8, 1_500)
@given(st.sampled_from(sorted(PLAIN)), TEXTS, st.booleans())
def test_a_value_of_the_command_line_or_the_environment_is_loaded_or_refused(
    file: Path, path: str, text: str, by_env: bool
) -> None:
    text = text.replace("\x00", "")  # neither can hold it
    env = {f"BALLAST_{path.replace('.', '__').upper()}": text} if by_env else {}
    found = load(file, b"", env, () if by_env else (f"{path}={text}",))
    if found is not None:
        check_usable(found, file)


def expanding(levels: int) -> bytes:
    """A value of a few hundred bytes that names ten to the power of `levels` values."""
    lists = ["&l0 [x, x, x, x, x, x, x, x, x, x]"]
    lists += [f"&l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return f"rounds: {{challengers: [{', '.join(lists)}]}}".encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"rounds: {strategy: 2001-99-99}", b"rounds:\n  round_interval_s: 0b_\n", b"a: 0x_", b"? [a]\n: b", b"{[a]: b}",
        b"rounds: {[a]: b}", b"{{a: 1}: 2}", b"a: &a [*a]", b"a: !!int x", b"a: !!timestamp x", b"a: " + b"9" * 5_000,
        b"[" * 400, b"{a: " * 400, b"- " * 400 + b"a", b"k" * LONG + b": 1", b"rounds: {" + b"k" * LONG + b": 1}",
        b"rounds: {strategy: " + b"s" * LONG + b"}", b"profile: " + b"p" * LONG, b'"a\\u2028\\x1b": 1',
        b'rounds: {"a\\n": 1}',
        b"rounds: {round_interval_s: 1" + b"0" * 400 + b"}", expanding(9), b"\xff\xfe\x00", b"a: '\x1b'",
        b"a: \xed\xa0\x80",
        b"{<<: [1]}", b"a: !!binary '%'",
        b"placement: {isolation: {a: {namespaces: [\"" + b"(" * 9_000 + b"\"], primary: [a]}}}",
        b"weighted: {load_awareness_providers: [" + b"x" * LONG + b"]}",
        b"weighted: {load_awareness_providers: [" + b"x." * 9_000 + b"y]}",
        b"kafka: {client: {" + b",".join(b"k%d: v" % n for n in range(LONG)) + b"}}",
    ],
    ids=range(31),
)  # fmt: skip
def test_a_file_that_ended_in_a_traceback_or_in_a_flood_ends_in_one_line(file: Path, raw: bytes) -> None:
    """YAML makes dates, numbers in base two, and references of references of what looks like plain text."""
    assert load(file, raw) is None


@pytest.mark.parametrize(
    "text",
    ["2001-99-99", "0b_", "[" * 300, "9" * 5_000, "\ud800", "&a [*a]", "!!int x", "{[a]: b}", "0b" + "1" * 15_000],
)
def test_a_value_that_ended_in_a_traceback_is_refused(file: Path, text: str) -> None:
    for path in ("rounds.round_interval_s", "kafka.agent_groups"):
        assert load(file, b"", {}, (f"{path}={text}",)) is None
        assert load(file, b"", {f"BALLAST_{path.replace('.', '__').upper()}": text}) is None


def test_a_place_that_cannot_be_printed_is_named_as_it_can(file: Path) -> None:
    assert load(file, b"", {}, ("tables.checkpoints=\x1f",)) is None


def test_what_is_named_by_reference_is_read(file: Path) -> None:
    found = load(file, b"broker: &b {max_bundles: 7}\nsplit: {enabled: false}\n")
    assert found is not None
    assert (found.broker.max_bundles, found.split.enabled) == (7, False)
    shared = load(
        file, b"rounds: {strategy: &s headroom}\nplacement:\n  failure_domains: {a: &n ['a:1'], b: ['b:1']}\n"
    )
    assert shared is not None


def test_a_number_that_no_clock_can_hold_is_refused(file: Path) -> None:
    """Minutes and days become ms: what is accepted fits into 64 bits."""
    accepted = []
    for path, default in PLAIN.items():
        if isinstance(default, int | float) and not isinstance(default, bool):
            found = load(
                file,
                json.dumps(
                    {path.split(".")[0]: {path.split(".")[1]: 1e300 if isinstance(default, float) else 2**62}}
                ).encode(),
            )
            accepted += [path] if found is not None and not fits(found, file) else []
    assert accepted == []


def fits(found: Settings, file: Path) -> bool:
    """Whether everything made of the settings fits into 64 bits."""
    try:
        check_usable(found, file)
    except (AssertionError, OverflowError):
        return False
    return True


def test_errors_are_short_wherever_they_come_from() -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(None, "p" * LONG, (), {})
    check_error(refused.value)
