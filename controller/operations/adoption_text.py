"""Who is in charge of a Pulsar cluster, in words, for the commands that tell it."""

from __future__ import annotations

from controller.domain.observed import Adoption, AdoptionPhase
from controller.operations.text import time_text

_WORDS = {
    AdoptionPhase.ADOPTED: "adopted",
    AdoptionPhase.RELEASING: "being released (`ballast pulsar release --apply` goes on with it)",
    AdoptionPhase.RELEASED: "released",
}


def adoption_sentence(adoption: Adoption | None) -> str:
    """The same as a sentence by itself."""
    if adoption is None:
        return "Nobody is known to have adopted the cluster."
    verb = "is" if adoption.phase is AdoptionPhase.RELEASING else "was"
    return f"The cluster {verb} {adoption_text(adoption)}."


def adoption_text(adoption: Adoption | None) -> str:
    """Whether the cluster is adopted, by whom and when."""
    if adoption is None:
        return "no adoption or release is known"
    who = f" by {adoption.who}" if adoption.who else ""
    why = f": {adoption.why}" if adoption.why else ""
    return f"{_WORDS[adoption.phase]}{who} at {time_text(adoption.at_ms)} UTC{why}"
