"""The endpoints that only read: each turns a request into a key, the versions it depends on, and a view's document."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from controller.domain.errors import BadRecord, shown
from controller.process.clock import wall_ms
from controller.ui.page import Page
from controller.ui.views.broker import broker
from controller.ui.views.bundle import bundle, bundle_load, realised
from controller.ui.views.map import bundle_map
from controller.ui.views.next_round import next_round
from controller.ui.views.now import now
from controller.ui.views.pulsar import pulsar
from controller.ui.views.rounds import decision, round_, rounds, would_have_done
from controller.ui.views.search import search

FRESH_MS = 5_000  # a document that tells ages, or whether the controller lives, is made again after this time
LONGEST_NAME = 400
Endpoint = Callable[[Page, Request], Response]


def get_now(page: Page, request: Request) -> Response:
    """*Now*."""
    at_ms, word = wall_ms(), page.listening.last()
    fresh = (word.not_asked, word.asked_ms, at_ms // FRESH_MS)
    return _answer(page, "now", lambda: now(page.cluster, word, at_ms), page.cluster.versions, fresh)


def get_broker(page: Page, request: Request) -> Response:
    """*Broker*."""
    name, versions = _name(request), page.cluster.versions
    return _answer(page, ("broker", name), lambda: broker(page.cluster, page.loads, name, wall_ms()), versions)


def get_bundle(page: Page, request: Request) -> Response:
    """*Bundle*, but for what takes longer: its load over time, and what its moves realised."""
    name, versions = _name(request), page.cluster.versions
    return _answer(
        page, ("bundle", name), lambda: bundle(page.cluster, name, wall_ms()), versions.seq, versions.evidence
    )


def get_bundle_load(page: Page, request: Request) -> Response:
    """The load of a bundle over time."""
    name = _name(request)
    return _answer(page, ("load", name), lambda: bundle_load(page.cluster, name), page.cluster.versions.loads)


def get_realised(page: Page, request: Request) -> Response:
    """What the moves of a bundle or of a round realised."""
    kind, name = request.path_params["kind"], _name(request)
    key = {"bundle": "bundle", "round": "round_id"}.get(kind)
    if key is None:
        raise BadRecord("realised", "moves of a bundle or of a round are judged")
    of = {key: name}
    evidence = page.cluster.versions.evidence
    return _answer(page, ("realised", kind, name), lambda: realised(page.cluster, **of, now_ms=wall_ms()), evidence)


def get_plan(page: Page, request: Request) -> Response:
    """*Next round*; `strategy`: in place of the one in charge."""
    strategy = request.query_params.get("strategy", "")[:LONGEST_NAME] or None
    at_ms = wall_ms()
    make = functools.partial(next_round, page.cluster, strategy, at_ms)
    return _answer(page, ("plan", strategy), make, page.cluster.versions, at_ms // FRESH_MS)


def get_rounds(page: Page, request: Request) -> Response:
    """*Rounds*; `before`: event time in ms, for older ones."""
    given = request.query_params.get("before", "")
    if given and not (given.isascii() and given.isdigit() and len(given) <= 16):
        raise BadRecord("before", f"{given[:40]!r} is no time in ms")
    before = int(given) if given else None
    return _answer(page, ("rounds", before), lambda: rounds(page.cluster, before), page.cluster.versions.evidence)


def get_round(page: Page, request: Request) -> Response:
    """One round."""
    name = _name(request)
    return _answer(page, ("round", name), lambda: round_(page.cluster, name), page.cluster.versions.evidence)


def get_what_if(page: Page, request: Request) -> Response:
    """What another strategy would have done in a round."""
    name, strategy = _name(request), request.path_params["strategy"]
    return _answer(page, ("as", name, strategy), lambda: would_have_done(page.cluster, name, strategy))


def get_decision(page: Page, request: Request) -> Response:
    """One decision with all of its evidence, which does not change."""
    name = _name(request)
    return _answer(page, ("decision", name), lambda: decision(page.cluster, name))


def get_map(page: Page, request: Request) -> Response:
    """*Map*, in binary."""
    body = page.shared.get("map", page.cluster.versions, lambda: bundle_map(page.cluster, page.loads))
    return Response(body, media_type="application/octet-stream")


def get_search(page: Page, request: Request) -> Response:
    """*Search*."""
    query = request.query_params.get("q", "")[:LONGEST_NAME]
    return Response(msgspec.json.encode(search(page.cluster, query)), media_type="application/json")


def get_pulsar(page: Page, request: Request) -> Response:
    """*Pulsar*."""
    return _answer(page, "pulsar", lambda: pulsar(page.cluster), page.cluster.versions.seq)


PARAMETERS: dict[Endpoint, tuple[str, ...]] = {get_plan: ("strategy",), get_rounds: ("before",), get_search: ("q",)}


def strict(endpoint: Endpoint) -> Endpoint:
    """The endpoint, but it refuses query parameters that it does not have: they would count for nothing."""
    known = PARAMETERS.get(endpoint, ())

    def checked(page: Page, request: Request) -> Response:
        for name in request.query_params:
            if name not in known:
                told = f"only {known[0]}" if known else "no parameters"
                raise BadRecord("parameter", f"{shown(name)} is unknown: this address has {told}")
        return endpoint(page, request)

    return checked


def _answer(page: Page, key: Hashable, make: Callable[[], Any], *versions: Hashable) -> Response:
    """A JSON document, made once for these versions."""
    body = page.shared.get(key, versions, lambda: msgspec.json.encode(make()))
    return Response(body, media_type="application/json")


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadRecord("name", f"a name has 1 to {LONGEST_NAME} characters")
    return name
