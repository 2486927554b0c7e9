"""The words that completion offers where an option or argument has choices that its type does not list.

Each function is called only when somebody completes such a word, and imports what it needs then.
"""

from __future__ import annotations


def mode_names() -> list[str]:
    """The modes of rounds."""
    from controller.domain.state import MODES

    return sorted(MODES)


def strategy_names() -> list[str]:
    """The strategies there are, those of other packages too."""
    from controller.policy.strategies import names
    from controller.process.plugins import use_installed_strategies

    use_installed_strategies()
    return names()


def strategy_or_configured() -> list[str]:
    """What `ballast strategy` can be set to."""
    from controller.control.policy_commands import CONFIGURED

    return [*strategy_names(), CONFIGURED]


def strategy_lists(incomplete: str) -> list[str]:
    """Names by commas: the ones given, followed by one that is not among them."""
    given, comma, _ = incomplete.rpartition(",")
    return [f"{given}{comma}{name}" for name in strategy_names() if name not in given.split(",")]


def entry_kinds() -> list[str]:
    """The kinds of journal entries."""
    from controller.domain.entries import Kind

    return [kind.value for kind in Kind]


def bundle_states() -> list[str]:
    """The states that a bundle can be in."""
    from controller.operations.bundles import bundle_states as known_states

    return known_states()


def profile_names() -> list[str]:
    """The shipped configuration profiles."""
    from controller.process.paths import home, shipped

    return [file.stem for file in (shipped(home()) / "conf" / "profiles").glob("*.yaml")]


def authentications() -> list[str]:
    """How a local Pulsar cluster can authenticate."""
    return ["none", "token", "tls"]


def load_managers() -> list[str]:
    """The load managers of a local Pulsar cluster."""
    from controller.testbed.pulsar.spec import LOAD_MANAGERS

    return list(LOAD_MANAGERS)
