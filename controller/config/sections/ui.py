"""The operators' page: where it listens, and who may act on it. Who may read is up to the section `http`."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key
from controller.config.sections.control import Names


class Ui(Section):
    """The operators' page, served by `ballast ui` (docs/ui.md)."""

    bind_host: str = key(
        "127.0.0.1",
        "Address at which the page is served.",
        source="nothing is opened to the network by default",
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
    port: int = key(8_180, "Port of the page; 0 takes a free one and prints it.", source=DESIGN, lo=0, hi=65_535)
    hosts: Names = key(
        (),
        "Further names by which browsers reach the page, such as that of a proxy. Requests to any other name are "
        "refused.",
        source=DESIGN,
        allowed="a list of host names",
    )
    token_file: str | None = key(
        None,
        "File of the people who may act on the page, a line `name: hash` for each; `ballast ui --new-token NAME` makes "
        "one. Beyond loopback, such a token also lets somebody read.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
