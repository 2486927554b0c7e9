"""`conf/ballast.yaml` and `docs/configuration.md`, written from the declarations of the keys.

Run `python -m controller.config.render` after changing a key; a test fails while a file is out of date. In the YAML
every key is commented out at its default: a copied file overrides nothing until a line is uncommented, so it never
masks a profile.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.config.definition import Definition
from controller.config.settings import DEFINITIONS, Settings

ROOT = Path(__file__).resolve().parents[2]
YAML_FILE = ROOT / "conf" / "ballast.yaml"
PAGE_FILE = ROOT / "docs" / "configuration.md"

YAML_HEAD = """\
# Ballast: every key, at its default. Uncomment a line to change it; docs/configuration.md is the same as a page.
# Order: defaults < profile < this file < environment (BALLAST_<SECTION>__<KEY>) < --set section.key=value.
# Relative paths belong to the folder of the file that they stand in; those of the defaults to the checkout.
# Pulsar's names work beside ours, here at the top level or below `pulsar:`; contradicting values stop the start.
# Written by `python -m controller.config.render`: edit a copy, or the declarations in controller/config/sections.

# local, cluster, demo or recording (conf/profiles), or a file of your own in a folder `profiles` beside this one
#profile: local
"""

PAGE_HEAD = """\
# Configuration

Every key of Ballast, written from the declarations in `controller/config/sections` by
`python -m controller.config.render`. The same as a file to copy: `conf/ballast.yaml`.

**Layers**, the later wins: defaults, profile, file, environment, overrides.

- profile: `--profile NAME`, else `BALLAST_PROFILE`, else `profile:` in the file, else `local`. Profiles are files in
  `conf/profiles`, or in a folder `profiles` beside your file.
- file: YAML, sections of keys.
- environment: `BALLAST_<SECTION>__<KEY>`, such as `BALLAST_CONTROL__LEASE_MS=15000`, two underscores between section
  and key.
- overrides: `--set section.key=value`, repeatable; `--set kafka.client.ssl_cafile=/etc/kafka/ca.pem` adds one setting
  of the Kafka clients.

**Where paths lead** never depends on the folder where one stands. A relative path in a file belongs to that file's
folder; the default of a path, or one in a shipped profile, to the checkout (where the package is installed elsewhere:
to `BALLAST_HOME`, else `~/.ballast`). In the environment and in `--set` only absolute paths are allowed, `BALLAST_CONF`
included. `~` is the user's home, `..` is resolved; addresses such as `s3://bucket/ballast` stay as they are. Up to
0.1.0 relative paths belonged to the working directory: where that still has a journal and the new place has none,
nothing starts, and both are named.

**Secrets** (`kafka.client.sasl_plain_password`, `kafka.client.ssl_password`) are given in a file, or in the environment
as `BALLAST_KAFKA__CLIENT__SASL_PLAIN_PASSWORD`, not by `--set`, which the list of processes shows. They are shown
as `***` everywhere, and so are credentials in an address: `s3a://***@bucket/ballast`.

**Pulsar's names** are accepted in every layer: at the top level of a file or below `pulsar:`, as
`BALLAST_PULSAR__<NAME>`, as `--set <name>=value`. They keep Pulsar's units. Within one layer, Pulsar's name and ours
with different values stop the start, naming both; with the same value they are fine. Of Pulsar's two spellings of the
bandwidth weights, the misspelt one (`Bandwith`) is read only while the right one is exactly 1.0, as in Pulsar. The
limits of strategy `weighted` have other names beside ours in the same way; Pulsar itself does not know them
([coverage](coverage.md#the-walkthroughs-thresholds) says where they come from).

**Mistakes** stop the start with one line: key, value, where it stands, what is allowed, the nearest known key.
An unknown key is a mistake, also in the environment; so is a key given twice in a file.

**Units** are part of a key's name. Sizes and rates may be written `512kB`, `100MB`, `1GiB`, `100MB/s`; as in Pulsar,
k, M and G are powers of 1024. A plain number is bytes, or bytes/s.

**Rules between keys**, checked at start: `loads.short_horizon_s` and `rounds.round_interval_s` are multiples of
`loads.pane_s`; `agent.journal_poll_ms` is at most a third of the shortest deadline; `control.heartbeat_ms` at most a
third of `control.lease_ms`; `rounds.max_report_age_s` at least two report intervals;
`retention.journal_days` at least `retention.evidence_days`, `retention.loads_days` at least `loads.retention_hours`;
`split.default_number_of_namespace_bundles` at most `split.namespace_maximum_bundles`; `rounds.challengers` repeat
neither the strategy nor each other; one weight at least is above 0; expressions of `placement.isolation` are regular
ones, no broker is in two failure domains and no namespace in two anti-affinity groups; `control.lease_ms` is above
Kafka's session timeout + 3 s unless Kafka is a single node.
"""


def yaml_text() -> str:
    """The text of `conf/ballast.yaml`."""
    lines = [YAML_HEAD]
    for section, keys in _sections():
        lines.append(f"# {_doc_of(section)}")
        lines.append(f"{section}:")
        for definition in keys:
            lines += [f"  # {line}" for line in textwrap.wrap(definition.doc, 112)]
            lines += [f"  # {line}" for line in textwrap.wrap(_facts(definition), 112)]
            lines.append(f"  #{definition.name}: {_yaml_value(definition.default)}".rstrip())
        lines.append("")
    return "\n".join(lines)


def page_text() -> str:
    """The text of `docs/configuration.md`."""
    lines = [PAGE_HEAD]
    for section, keys in _sections():
        lines += [f"## {section}", "", _doc_of(section), ""]
        lines += ["| key | default | allowed | Pulsar's name | what it does | default from |", "| --- " * 6 + "|"]
        for d in keys:
            pulsar = "<br>".join(f"`{alias.name}`{f' ({alias.unit})' if alias.unit else ''}" for alias in d.pulsar)
            default = _yaml_value(d.default)
            cells = (f"`{d.name}`", f"`{default}`" if default else "empty", d.allowed(), pulsar, d.doc, d.source)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _sections() -> Iterator[tuple[str, list[Definition]]]:
    for section in Settings.model_fields:
        yield section, [d for d in DEFINITIONS.values() if d.section == section]


def _doc_of(section: str) -> str:
    doc: str = (Settings.model_fields[section].annotation.__doc__ or "").strip()
    return doc


def _facts(definition: Definition) -> str:
    unit = f"unit: {definition.unit}; " if definition.unit else ""
    names = ", ".join(alias.name + (f" ({alias.unit})" if alias.unit else "") for alias in definition.pulsar)
    pulsar = f"Pulsar: {names}; " if names else ""
    default = _yaml_value(definition.default) or "empty"
    allowed = definition.allowed().replace(f" ({definition.unit})", "")
    return f"{unit}default: {default}; allowed: {allowed}; {pulsar}source: {definition.source}"


def _yaml_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value and ":" not in value else json.dumps(value)
    if isinstance(value, (dict, tuple)):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def main() -> None:
    """Write both files."""
    YAML_FILE.write_text(yaml_text(), encoding="utf-8")
    PAGE_FILE.write_text(page_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
