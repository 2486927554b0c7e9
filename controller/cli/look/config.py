"""`ballast config show|check`: the effective configuration and where each value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, new_group, report_errors, settings_of
from controller.cli.show import emit_json, emit_table
from controller.config.http_access import check_http_access
from controller.config.kafka_files import check_kafka_files
from controller.service.start_checks import check_places, check_writers

app = new_group("Configuration: show the effective values, check a file.")


@app.command()
@report_errors
def show(
    changed: Annotated[bool, typer.Option("--changed", help="Only values that differ from the defaults.")] = False,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show every key with its value and origin; secrets are hidden."""
    settings = settings_of(conf, profile, sets)
    keys = {k: v for k, v in settings.dump().items() if not changed or v["origin"] != "default"}
    if as_json:
        emit_json({"profile": settings.profile, "version": settings.version, "keys": keys})
        return
    rows = [(name, _text(key["value"]), key["origin"]) for name, key in keys.items()]
    emit_table(["key", "value …", "origin"], rows, f"profile {settings.profile}, version {settings.version}")


@app.command()
@report_errors
def check(conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """Check whether every process would start with this configuration; exit code 2 if not."""
    settings = settings_of(conf, profile, sets)
    check_places(settings)
    check_writers(settings)
    for host_key in ("http.bind_host", "agent.bind_host"):
        check_http_access(settings, host_key)
    from controller.brokers.pulsar.auth import check_files  # a client and a server of HTTP take their time to import
    from controller.ui.server import page_rules

    check_kafka_files(settings)
    check_files(settings.pulsar_cluster)
    page_rules(settings, settings.ui.bind_host, Path(settings.ui.token_file) if settings.ui.token_file else None)
    if as_json:
        emit_json({"ok": True, "profile": settings.profile, "version": settings.version})
    else:
        typer.echo(f"ok: profile {settings.profile}, version {settings.version}")


def _text(value: object) -> str:
    if value is None:
        return "(empty)"
    return str(value).lower() if isinstance(value, bool) else str(value)
