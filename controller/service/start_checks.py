"""What would hinder a start is found before anything dear is started: places for tables and checkpoints, ports.

Only what this machine can tell at once is looked at; an object store is left to whoever opens it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from controller.config.places import check_old_place
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.process.paths import is_address


def check_job(settings: Settings, checkpoint: str | None = None) -> None:
    """Raises ConfigError where the controller's job cannot start. `checkpoint`: instead of tables.checkpoints."""
    from controller.policy import strategies  # agents check ports, and decide nothing

    check_old_place(settings)
    strategies.names()  # a name that two packages give theirs is refused now, not when it is first chosen
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
        if not why:
            _make_and_take_away(Path(place), nearest)
    except (OSError, ValueError) as error:  # a name that is too long, a link to itself
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise ConfigError(f"{name} = {place}{origin} cannot be used: {why}; give a folder that can be written to")


def _make_and_take_away(place: Path, nearest: Path) -> None:
    """Only making it tells whether it can be made: /proc says that it can be written to. Raises OSError."""
    made = [p for p in (place, *place.parents) if nearest in p.parents]
    try:
        place.mkdir(parents=True, exist_ok=True)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # it was not made, or somebody uses it by now
                folder.rmdir()


def check_port(settings: Settings, host_key: str, port_key: str) -> None:
    """Raises ConfigError where an address that is to be listened on cannot be had."""
    check_listening(*((key, settings.value(key), f" ({settings.origin(key)})") for key in (host_key, port_key)))


def check_listening(host: tuple[str, str, str], port: tuple[str, int, str]) -> None:
    """As `check_port`, for values from anywhere: each with its name, and for messages where it comes from."""
    from controller.process.http import listen  # the web server takes a third of a second to import

    try:
        listen(host[1], port[1]).close()
    except OSError as error:
        of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        (name, value, origin), give = (
            (port, "another port, or 0 for a free one") if of_port else (host, "one of this machine")
        )
        raise ConfigError(
            f"{name} = {value}{origin}: {host[1]}:{port[1]} cannot be listened on ({error.strerror or error}); "
            f"give {give}"
        ) from None


def _named(settings: Settings, key: str) -> tuple[str, str]:
    return key, f" ({settings.origin(key)})"
