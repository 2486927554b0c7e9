"""What would hinder a start is found before anything dear is started: places for tables and checkpoints, ports.

Only what this machine can tell at once is looked at; an object store is left to whoever opens it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from controller.config.places import check_old_place, is_address
from controller.config.settings import Settings
from controller.domain.errors import ConfigError


def check_job(settings: Settings, checkpoint: str | None = None) -> None:
    """Raises ConfigError where the controller's job cannot start. `checkpoint`: instead of tables.checkpoints."""
    check_old_place(settings)
    check_folder(settings.tables.root, *_named(settings, "tables.root"))
    if checkpoint is None:
        check_folder(settings.tables.checkpoints, *_named(settings, "tables.checkpoints"))
    else:
        check_folder(checkpoint, "--checkpoint", "")
    check_port(settings, "http.bind_host", "http.job_port")


def check_folder(place: str, name: str, origin: str) -> None:
    """Raises ConfigError for a place on this machine that is no folder and cannot become one, or not be written to."""
    if is_address(place):
        return
    try:
        nearest = next(p for p in (Path(place), *Path(place).parents) if p.exists())
        why = (
            f"{nearest} is a file" if not nearest.is_dir()
            else f"{nearest} cannot be written to" if not os.access(nearest, os.W_OK | os.X_OK)
            else ""
        )  # fmt: skip
    except (OSError, ValueError) as error:  # a name that is too long, a link to itself
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise ConfigError(f"{name} = {place}{origin} cannot be used: {why}; give a folder that can be written to")


def check_port(settings: Settings, host_key: str, port_key: str) -> None:
    """Raises ConfigError where an address that is to be listened on cannot be had."""
    from controller.ops.http import listen  # the web server takes a third of a second to import

    host, port = settings.value(host_key), settings.value(port_key)
    try:
        listen(host, port).close()
    except OSError as error:
        of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        key, give = (port_key, "another port, or 0 for a free one") if of_port else (host_key, "one of this machine")
        raise ConfigError(
            f"{key} = {settings.value(key)} ({settings.origin(key)}): {host}:{port} cannot be listened on "
            f"({error.strerror or error}); give {give}"
        ) from None


def _named(settings: Settings, key: str) -> tuple[str, str]:
    return key, f" ({settings.origin(key)})"
