"""The guard in front of an application: a request without the token or certificate that is demanded is answered here.

What an open endpoint is, the exact path decides: everything else is guarded, also paths that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.process.access.access import HttpAccess

CERTIFIED = "ballast.certified"  # in the state of a connection: whether it showed a certificate that was verified
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="ballast"'}
_HOW = "send it as `Authorization: Bearer TOKEN` (Ballast's own clients: http.token_file)"


class Guard:
    """An ASGI application that lets only those requests through to `app` that the access allows.

    `on_refused` is called with the error of every other one: no_certificate, no_token or unknown_token.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: HttpAccess,
        open_paths: Collection[str],
        on_refused: Callable[[str], None] = lambda error: None,
    ) -> None:
        self._app, self._access, self._open = app, access, frozenset(open_paths)
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        refusal = None if scope["path"] in self._open else self._refuse(scope)
        await (refusal or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        if self._access.demands_certificate and not scope.get("state", {}).get(CERTIFIED):
            text = (
                "a client certificate is missing: show one (Ballast's own clients: http.tls_certificate, http.tls_key)"
            )
            return self._refusal("no_certificate", text, 403)
        tokens = self._access.tokens
        if tokens is None:
            return None
        scheme, _, given = Headers(scope=scope).get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return self._refusal("no_token", f"a token is missing: {_HOW}", 401, CHALLENGE)
        # Headers are latin-1: any byte may be in one
        if not tokens.accepts(given.strip().encode("latin-1")):
            text = f"this token is not one of those that are accepted here: {_HOW}"
            return self._refusal("unknown_token", text, 401, CHALLENGE)
        return None

    def _refusal(self, error: str, text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
        self._on_refused(error)
        return JSONResponse({"error": error, "text": text}, status, headers)
