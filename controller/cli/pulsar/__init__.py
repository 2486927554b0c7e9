"""`ballast pulsar …`: a real Apache Pulsar cluster. A file for each command."""

from __future__ import annotations

from controller.cli.options import new_group
from controller.cli.pulsar import dev
from controller.cli.pulsar.advise import advise
from controller.cli.pulsar.check import check
from controller.cli.pulsar.record import record

app = new_group("Apache Pulsar clusters: record their load, see what Ballast would do, run one on this machine.")
app.command()(record)
app.command()(advise)
app.command()(check)
app.add_typer(dev.app, name="dev")
