"""Names of environment variables that begin with BALLAST_: which are no settings, and what a mistyped one may mean."""

from __future__ import annotations

import difflib
import re

from controller.bus.security import KEYS
from controller.config.layers import CLIENT, PULSAR_SECTION, unknown_key_text
from controller.config.pulsar_names import PULSAR_NAMES
from controller.config.settings import DEFINITIONS
from controller.domain.errors import label

ENV_PREFIX = "BALLAST_"
ENV_PROFILE = "BALLAST_PROFILE"
ENV_CONF = "BALLAST_CONF"  # the configuration file if no --conf is given
FOR_OPERATORS = (ENV_CONF, "BALLAST_HOME", "BALLAST_IVY_SETTINGS", ENV_PROFILE)
FOR_DEVELOPERS = (  # read by the tests, which pass their environment on
    "BALLAST_EXAMPLES", "BALLAST_FAILPOINTS", "BALLAST_OUTAGE_MINUTES", "BALLAST_REWRITE_GOLDEN", "BALLAST_SCREENSHOTS",
    "BALLAST_SOAK_MINUTES",
)  # fmt: skip
# What Kubernetes tells a pod about a Service called ballast-…, in the form of Docker's links, too.
_OF_KUBERNETES = re.compile(
    r"BALLAST_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK = re.compile(r"(tcp|udp|sctp)://.*")  # the value of BALLAST_…_PORT there


def is_no_setting(variable: str, text: str) -> bool:
    """Whether a variable that begins with BALLAST_ is known, but no key of the configuration."""
    if variable in FOR_OPERATORS or variable in FOR_DEVELOPERS or _OF_KUBERNETES.fullmatch(variable):
        return True
    return variable.endswith("_PORT") and _LINK.fullmatch(text) is not None


def unknown_variable_text(variable: str) -> str:
    """The error for an unknown variable, with the nearest right spelling. Whatever its value is may be secret."""
    spellings = {_bare(name): name for name in (*_variables(), *FOR_OPERATORS)}
    meant = spellings.get(_bare(variable))  # the right one but for the number of underscores
    if meant is None and "__" in variable:
        wanted = variable[len(ENV_PREFIX) :].lower().replace("__", ".", 1)
        return unknown_key_text(wanted, f"environment variable {variable}")
    near = [] if meant else difflib.get_close_matches(_bare(variable), spellings, n=1, cutoff=0.75)
    advice = (
        f"write {meant}" if meant
        else f"the nearest known one is {spellings[near[0]]}" if near
        else "a key is written BALLAST_<SECTION>__<KEY>, and docs/configuration.md lists all keys and other variables"
    )  # fmt: skip
    return f"unknown environment variable {label(variable)}: {advice}"


def _variables() -> list[str]:
    """The variable of every key, of every setting of the Kafka clients, and of Pulsar's names."""
    settings = [f"{CLIENT}.{key}" for key in KEYS] + [f"{PULSAR_SECTION}.{name}" for name in PULSAR_NAMES]
    return [ENV_PREFIX + path.replace(".", "__").upper() for path in (*DEFINITIONS, *settings)]


def _bare(variable: str) -> str:
    """Without the prefix, which all share, and with single underscores."""
    return re.sub("_+", "_", variable[len(ENV_PREFIX) :].upper())
