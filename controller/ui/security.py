"""Who may ask the page, and from where. `Gate` stands in front of the application.

A page on loopback can be reached by every website that somebody on this machine opens. So requests must be addressed to
a name of this page (`Host`), must not come from another site (`Origin`, `Sec-Fetch-Site`), and every answer forbids the
browser to load or run anything from elsewhere (CSP). A token comes in a header or in the body of the log-in, which
answers with a cookie that other sites cannot make the browser send; it is never part of a URL.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.process.access.named_tokens import NamedTokens
from controller.process.access.tokens import TokenFile

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
API, SESSION = "/api/", "/api/session"
OPEN = ("/healthz", SESSION)  # of what is not static, needs no log-in
SESSION_S = 12 * 3_600
MOST_SESSIONS = 1_000
WHO = "who"  # in the state of a request
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks. `name`: of a person who may act; None for anybody else. `reads`: whether they may read."""

    name: str | None
    reads: bool


class Sessions:
    """Log-ins of browsers, in memory: a restart ends them. The token is judged again at every request."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, tuple[str, float]] = {}

    def begin(self, token: str) -> str:
        """The secret of a new session."""
        now_s = time.monotonic()
        self._tokens = {key: kept for key, kept in self._tokens.items() if kept[1] > now_s}
        while len(self._tokens) >= MOST_SESSIONS:
            del self._tokens[next(iter(self._tokens))]
        secret = secrets.token_urlsafe(32)
        self._tokens[_key(secret)] = token, now_s + SESSION_S
        return secret

    def token_of(self, secret: str) -> str | None:
        """The token that began the session, while it lasts."""
        token, until_s = self._tokens.get(_key(secret), (None, 0.0))
        return token if until_s > time.monotonic() else None

    def end(self, secret: str) -> None:
        """Forget it."""
        self._tokens.pop(_key(secret), None)


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True)
class Rules:
    """`hosts`: names of this page, in lower case. `people`: who may act. `readers`: tokens that let read.
    `must_log_in`: nothing is told to others. `secure`: the page is served over TLS. `port`: names the cookie."""

    hosts: frozenset[str]
    people: NamedTokens | None = None
    readers: TokenFile | None = None
    must_log_in: bool = False
    secure: bool = False
    port: int = 0
    sessions: Sessions = field(default_factory=Sessions)

    @property
    def cookie(self) -> str:
        """Its name. Cookies know no ports: pages of two clusters on one host must not end each other's sessions."""
        return f"ballast-{self.port}"

    def judge(self, token: str | None) -> Who:
        """Who has this token."""
        if not token:
            return Who(None, not self.must_log_in)
        name = self.people.name_of(token) if self.people is not None else None
        reader = self.readers is not None and self.readers.accepts(token.encode("utf-8", "replace"))
        return Who(name, bool(name) or reader or not self.must_log_in)

    def knows(self, token: str) -> bool:
        """Whether the token is anybody's at all."""
        return Rules(self.hosts, self.people, self.readers, must_log_in=True).judge(token).reads

    def session_cookie(self, secret: str) -> str:
        """The value of `Set-Cookie`; an empty secret ends the cookie."""
        age = SESSION_S if secret else 0
        return f"{self.cookie}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{'; Secure' * self.secure}"

    def secret_in(self, headers: Headers) -> str | None:
        """The session's secret that a browser shows."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return None
        return found.value if found is not None else None


def hosts_of(bound: str, more: Iterable[str]) -> frozenset[str]:
    """The names by which a page may be reached that listens on `bound`."""
    wildcard = bound in ("0.0.0.0", "::", "")
    return frozenset(name.lower().strip("[]") for name in (*LOOPBACK, *(() if wildcard else (bound,)), *more))


class Gate:
    """An ASGI application that lets through to `app` what the rules allow, and notes who asks."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        who = self._who(headers)
        refusal = self._refuse(scope["method"], scope["path"], headers, who)
        if not scope["query_string"].isascii():  # whoever decodes it would take it for UTF-8
            refusal = _refusal(400, "query", "the address has bytes that no address may have")
        state = {**scope.get("state", {}), WHO: who}
        await (refusal or self._app)({**scope, "state": state}, receive, _with_headers(send, scope["path"]))

    def _who(self, headers: Headers) -> Who:
        token = bearer_of(headers)
        if token is not None:
            return self._rules.judge(token)
        secret = self._rules.secret_in(headers)
        return self._rules.judge(self._rules.sessions.token_of(secret) if secret else None)

    def _refuse(self, method: str, path: str, headers: Headers, who: Who) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._rules.hosts:
            text = "this page has another name: open it by its address, or add the name to ui.hosts (docs/ui.md)"
            return _refusal(421, "unknown_host", text)
        if not _of_this_site(method, path, headers, hosts[0]):
            return _refusal(403, "another_site", "the request comes from another site, or does not say from which")
        if path.startswith(API) and path not in OPEN and not who.reads:
            return _refusal(401, "log_in", "log in with a token (docs/ui.md)")
        return None


def bearer_of(headers: Headers) -> str | None:
    """The token that a program shows."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _of_this_site(method: str, path: str, headers: Headers, host: str) -> bool:
    """Whether the request comes from the page itself, or from a program that shows a token."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return False
    if method in ("GET", "HEAD") and not path.startswith(API):
        return True  # a link from elsewhere: only the static page, which then asks as itself
    own = site in (None, "same-origin", "none")
    return own and (method in ("GET", "HEAD") or origin is not None or "authorization" in headers)


def _name_of(host: str) -> str:
    """The name in a `Host` header, without the port and the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _refusal(status: int, error: str, text: str) -> Response:
    return JSONResponse({"error": error, "text": text}, status)


def _with_headers(send: Send, path: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store" if path.startswith(API) else "no-cache")
        await send(message)

    return sending
