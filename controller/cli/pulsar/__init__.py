"""`ballast pulsar …`: a real Apache Pulsar cluster. A file for each command."""

from __future__ import annotations

from controller.cli.options import new_group
from controller.cli.pulsar import dev
from controller.cli.pulsar.adopt import adopt
from controller.cli.pulsar.advise import advise
from controller.cli.pulsar.check import check
from controller.cli.pulsar.demo import demo
from controller.cli.pulsar.record import record
from controller.cli.pulsar.release import release

app = new_group("Apache Pulsar clusters: record their load, let Ballast balance one, run one on this machine.")
app.command()(record)
app.command()(advise)
app.command()(check)
app.command()(adopt)
app.command()(release)
app.command()(demo)
app.add_typer(dev.app, name="dev")
