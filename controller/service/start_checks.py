"""Checks files, ports, Kafka and the owner of its topics before anything expensive starts.

Only what can be told at once is checked; errors of an object store appear when it is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from deltalake.exceptions import DeltaError

from controller.config.http_access import check_http_access
from controller.config.places import check_no_query, check_old_place
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import BallastError, ConfigError, PortTaken, StoreError, without_login
from controller.process.paths import is_address

OWNER_MS = 5_000  # for Kafka to answer with the record of its topics' owner
TICKS, CONNECT_MS = 3, 1_000  # of a controller that lives, and until the first can be read
_LOCKED = "it cannot be written to now; is its disk read-only, or does it belong to another user?"


def check_job(settings: Settings, checkpoint: str | None = None, pid_file: Path | None = None) -> None:
    """Raise ConfigError if the controller's job cannot start. `checkpoint`: in place of tables.checkpoints."""
    from controller.policy import strategies  # not for agents, which check ports only

    strategies.names()  # refuses a name given by two packages at start, not when it is first chosen
    check_places(settings, checkpoint)
    check_writers(settings)
    if pid_file is not None:
        check_file(pid_file, "--pid-file")
    check_http(settings, "http.bind_host", "http.job_port")


def check_places(settings: Settings, checkpoint: str | None = None) -> None:
    """Raise ConfigError if the tables or checkpoints cannot be where they are configured to be."""
    check_old_place(settings)
    check_folder(settings.tables.root, *_name_and_origin(settings, "tables.root"))
    if checkpoint is None:
        check_folder(settings.tables.checkpoints, *_name_and_origin(settings, "tables.checkpoints"))
    else:
        check_folder(checkpoint, "--checkpoint", "")


def check_topics(settings: Settings, take_over: bool = False) -> None:
    """Raise AnotherController if the topics certainly belong to another journal than that of the tables, or if a
    controller of this journal ticks that is not to be replaced (`take_over`); DamagedTable if the journal cannot be
    read.

    Nothing is claimed by looking, and what cannot be read now is left to the start itself, which looks again and
    listens for longer.
    """
    from kafka.errors import KafkaError  # agents need none of these

    from controller.bus.topic_owner import newest_owner
    from controller.ledger.damage import DamagedTable
    from controller.ledger.snapshots import load_state_and_version
    from controller.service.start import listen_for_another, refuse_holder
    from controller.service.topic_claim import refuse_another

    kafka = settings.kafka
    try:
        owner = newest_owner(kafka.bootstrap_servers, kafka.topics.owner, kafka.client, OWNER_MS)
        if owner is None:
            return
        root = table_root(settings)
        state, _ = load_state_and_version(root)
    except DamagedTable:
        raise
    except (BallastError, DeltaError, KafkaError, OSError):
        return
    refuse_another(state, owner, without_login(root.root))
    if state.controller_running and state.journal_id and not take_over:
        for_ms = TICKS * settings.control.tick_ms + CONNECT_MS
        names = kafka.topics
        refuse_holder(listen_for_another(kafka.bootstrap_servers, kafka.client, names, state.journal_id, for_ms))


def check_writers(settings: Settings) -> None:
    """Raise ConfigError for a writer that commits to an object store without a conditional put, and for an address of
    the store that would be refused."""
    root = table_root(settings)  # checks the address, whoever writes
    if settings.loads.writer == "spark" and root.is_object_store:
        raise ConfigError(
            f"loads.writer = spark ({settings.origin('loads.writer')}) is not allowed with tables.root ="
            f" {without_login(settings.tables.root)}: Spark's Delta writes to object stores without a condition, which"
            " is safe for one process only; give auto"
        )


def check_spark_maintenance(settings: Settings) -> None:
    """Raise ConfigError for maintenance by Spark of tables in an object store."""
    if table_root(settings).is_object_store:
        raise ConfigError(
            f"Spark does not maintain tables in an object store (tables.root = {without_login(settings.tables.root)}):"
            " its Delta commits there without a condition, beside a controller that commits too; run `ballast maintain`"
            " without --spark"
        )


def check_file(file: Path, name: str) -> None:
    """Raise ConfigError for a local file that cannot be written."""
    if file.is_dir():
        raise ConfigError(f"{name} = {file} cannot be used: it is a folder; give a file that can be written")
    if file.exists() and not os.access(file, os.W_OK):
        raise ConfigError(f"{name} = {file} cannot be used: it cannot be written to; give another file")
    check_folder(str(file.absolute().parent), f"the folder of {name}", "")


def check_folder(place: str, name: str, origin: str) -> None:
    """Raise ConfigError for a local place that is not a writable folder and cannot be created as one, and for an
    address with a login, which Hadoop refuses, or with a query part. StoreError for a folder that is there and cannot
    be written to: its disk may be read-only for a while."""
    if without_login(place) != place:
        raise ConfigError(
            f"{name} = {place}{origin} holds a login, which Hadoop refuses: put the keys of the object store into the "
            "Spark properties file (--spark-conf) or the environment"
        )
    check_no_query(place, f"{name}{origin}")
    if is_address(place):
        return
    try:
        nearest = next(p for p in (Path(place), *Path(place).parents) if p.is_symlink() or p.exists())
        for missing in Path(place).relative_to(nearest).parts:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.lstat(nearest / missing)  # a name that is too long
        why = (
            f"{nearest} is a link to something that is not there" if not nearest.exists()
            else f"{nearest} is a file" if not nearest.is_dir()
            else _LOCKED if nearest == Path(place) and not os.access(nearest, os.W_OK | os.X_OK)
            else f"{nearest} cannot be written to" if not os.access(nearest, os.W_OK | os.X_OK)
            else ""
        )  # fmt: skip
        if not why and nearest != Path(place):
            # Permissions do not tell, as in /proc. A name of its own, as others may look at the same time.
            os.rmdir(tempfile.mkdtemp(prefix=".ballast-", dir=nearest))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why == _LOCKED:
        raise StoreError(f"{name} = {place}{origin} cannot be used: {why}")
    if why:
        raise ConfigError(f"{name} = {place}{origin} cannot be used: {why}; give a folder that can be written to")


def check_http(settings: Settings, host_key: str, port_key: str) -> None:
    """Raise ConfigError if HTTP must not be served at the configured address, or it cannot be listened on."""
    check_http_access(settings, host_key)
    check_listening(*((key, settings.value(key), f" ({settings.origin(key)})") for key in (host_key, port_key)))


def check_listening(host: tuple[str, str, str], port: tuple[str, int, str]) -> None:
    """Raise ConfigError if an address cannot be listened on, PortTaken if somebody else listens there. Host and port:
    (name, value, origin for messages)."""
    from controller.process.http import listen  # the web server takes a third of a second to import

    try:
        listen(host[1], port[1]).close()
    except OSError as error:
        of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        (name, value, origin), give = (
            (port, "another port, or 0 for a free one") if of_port else (host, "one of this machine")
        )
        kind = PortTaken if error.errno == errno.EADDRINUSE else ConfigError
        raise kind(
            f"{name} = {value}{origin}: {host[1]}:{port[1]} cannot be listened on ({error.strerror or error}); "
            f"give {give}"
        ) from None


def _name_and_origin(settings: Settings, key: str) -> tuple[str, str]:
    return key, f" ({settings.origin(key)})"
