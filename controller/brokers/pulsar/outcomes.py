"""What came of a call to Pulsar: every answer, and every failure to get one, has exactly one name.

A `CallFailed` says who was asked for what, what came of it, Pulsar's words where there are any, and what to do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from controller.domain.errors import BallastError

_T = TypeVar("_T")
MOST_WORDS = 500  # characters of what Pulsar says that are kept


class Outcome(str, Enum):
    """Of one call."""

    OK = "ok"
    UNAUTHENTICATED = "unauthenticated"  # 401
    FORBIDDEN = "forbidden"  # 403, or 401 to a role that is known and may not do this
    NOT_FOUND = "not_found"  # 404
    CONFLICT = "conflict"  # 409
    PRECONDITION = "precondition_failed"  # 412
    REFUSED = "refused"  # any other 4xx
    SERVER_ERROR = "server_error"  # 5xx
    UNREACHABLE = "unreachable"  # no connection, or closed before an answer
    TLS = "tls_failed"
    TIMED_OUT = "timed_out"
    CUT_OFF = "cut_off"  # the connection broke within the answer
    TOO_LARGE = "too_large"
    REDIRECTED = "redirect_refused"  # to an address that gets no credentials, or too many times
    NO_CREDENTIALS = "no_credentials"  # a token could not be had
    BAD_ANSWER = "bad_answer"  # not what this path answers


_ANYTHING = msgspec.json.Decoder[Any]()
BEFORE_ANSWER = frozenset({Outcome.UNREACHABLE, Outcome.TLS, Outcome.TIMED_OUT, Outcome.CUT_OFF})
_BY_STATUS = {
    401: Outcome.UNAUTHENTICATED,
    403: Outcome.FORBIDDEN,
    404: Outcome.NOT_FOUND,
    409: Outcome.CONFLICT,
    412: Outcome.PRECONDITION,
}
_NOT_ALLOWED = "Unauthorized to "  # Pulsar 4.0, to a role that it knows
_ADVICE = {
    Outcome.UNAUTHENTICATED: "give credentials that the cluster accepts (--token-file, --oauth2-key-file, TLS options)",
    Outcome.FORBIDDEN: "reading loads takes a super-user role: see docs/pulsar.md for roles",
    Outcome.UNREACHABLE: "is the address right, with the port of the web service (8080) and not the binary one (6650), "
    "and can this machine reach it?",
    Outcome.TLS: "give the certificate authority of the brokers (--tls-ca-file), and certificate and key if they ask",
    Outcome.TIMED_OUT: "is the broker overloaded, or a firewall silent? pulsar_cluster.read_timeout_s waits longer",
    Outcome.REDIRECTED: "if that address belongs to the cluster, add it to --service-url",
    Outcome.BAD_ANSWER: "is this the web service of a Pulsar broker, version 3.0 or newer?",
}


class CallFailed(BallastError):
    """Raised where an answer was needed. `outcome` is never OK."""

    def __init__(self, outcome: Outcome, about: str, detail: str = "") -> None:
        advice = _ADVICE.get(outcome, "")
        words = f"{about}: {outcome.value.replace('_', ' ')}"
        super().__init__(words + (f" ({detail})" if detail else "") + (f"; {advice}" if advice else ""))
        self.outcome, self.about, self.detail = outcome, about, detail


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call. `address`: who answered, or was asked last; `body`: empty unless OK and kept.

    `in_pulsars_words`: the refusal is Pulsar's own, and not of a proxy or an ingress in front of it. `sent`: the number
    of the request that it answers, in the order in which this process sent them.
    """

    outcome: Outcome
    path: str
    address: str
    status: int = 0
    body: bytes = b""
    detail: str = ""
    redirects: tuple[str, ...] = ()
    took_ms: float = 0.0
    in_pulsars_words: bool = False
    sent: int = 0

    @property
    def is_absent(self) -> bool:
        """Whether Pulsar itself says that there is no such thing. Any server between says 404 as well, of whatever."""
        return self.outcome is Outcome.NOT_FOUND and self.in_pulsars_words

    def require(self) -> Answer:
        """This answer. Raises CallFailed unless it is OK."""
        if self.outcome is not Outcome.OK:
            raise self.failure()
        return self

    def failure(self, outcome: Outcome | None = None, detail: str = "") -> CallFailed:
        """The error to raise because of this answer."""
        said = detail or (f"HTTP {self.status}: {self.detail}".rstrip(": ") if self.status else self.detail)
        if self.outcome is Outcome.NOT_FOUND and not self.is_absent:
            said += f"{'; ' if said else ''}not in Pulsar's words: does a proxy answer in place of a broker?"
        return CallFailed(outcome or self.outcome, f"{self.address}{self.path}", said)

    def decode(self, decoder: msgspec.json.Decoder[_T]) -> _T:
        """The document of an OK answer, of the decoder's type. Raises CallFailed if it is not OK or no such thing."""
        self.require()
        try:
            return decoder.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.failure(Outcome.BAD_ANSWER, f"not the JSON that was expected: {str(error)[:80]}") from None

    def json(self) -> Any:
        """The document of an OK answer. Raises CallFailed if it is not OK or no JSON."""
        return self.decode(_ANYTHING)

    def mapping(self) -> dict[str, Any]:
        """The JSON object of an OK answer. Raises CallFailed."""
        document = self.json()
        if not isinstance(document, dict):
            raise self.failure(Outcome.BAD_ANSWER, f"a JSON {type(document).__name__} where an object was expected")
        return document

    def listing(self) -> list[Any]:
        """The JSON list of an OK answer. Raises CallFailed."""
        document = self.json()
        if not isinstance(document, list):
            raise self.failure(Outcome.BAD_ANSWER, f"a JSON {type(document).__name__} where a list was expected")
        return document


def outcome_of_status(status: int, words: str = "") -> Outcome:
    """The outcome of an HTTP status that is no redirect; `words`: what Pulsar says (`words_of`)."""
    if status == 401 and words.startswith(_NOT_ALLOWED):
        return Outcome.FORBIDDEN
    if 200 <= status < 300:
        return Outcome.OK
    if 400 <= status < 500:
        return _BY_STATUS.get(status, Outcome.REFUSED)
    return Outcome.SERVER_ERROR if status >= 500 else Outcome.BAD_ANSWER


def is_of_pulsar(refusal: bytes) -> bool:
    """Whether this body of a refusal is Pulsar's: its brokers answer JSON with a reason (`RestException`)."""
    try:
        document = json.loads(refusal)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "reason" in document


def words_of(body: bytes) -> str:
    """What Pulsar says in the body of a refusal, in one line: its reason or Jetty's message, without a stack trace."""
    text = body.decode("utf-8", "replace")
    try:
        document = json.loads(text)
        said = document.get("reason") or document.get("message") if isinstance(document, dict) else None
        text = said if isinstance(said, str) else text
    except (ValueError, RecursionError):
        text = "" if "<html" in text[:1000].lower() else text  # Jetty's page says no more than the status
    message = text.split("Stacktrace:", 1)
    first = message[1].strip().splitlines()[:1] if len(message) > 1 else []
    line = " ".join([*message[0].replace("Message: null", "").split(), *first])
    return "".join(c for c in line if c.isprintable())[:MOST_WORDS]
