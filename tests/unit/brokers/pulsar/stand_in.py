"""A stand-in for a Pulsar cluster: every broker a real HTTP server on loopback, answering as recorded brokers did.

Brokers are named `broker-1:8080` and so on, which nobody resolves: as in a real cluster, an id is no address. What a
broker answers to a path can be replaced (`answers`), also by hanging or by breaking off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.process.http import HttpServer
from controller.process.paths import ROOT

RECORDED = ROOT / "tests" / "data" / "real" / "pulsar_responses"
CLUSTER = "spike"
STATS = {"msgRateIn": 0.0, "msgThroughputIn": 0.0, "msgRateOut": 0.0, "msgThroughputOut": 0.0, "topics": 2,
         "producerCount": 2, "consumerCount": 2, "cacheSize": 0}  # fmt: skip
Answer = Callable[["Broker", Request], Any]


def recorded(name: str) -> Any:
    """The body of a recorded answer."""
    return json.loads((RECORDED / f"{name}.json").read_text())["body"]


class Broker:
    """One broker. `held`: bundle -> messages/s in; `cpu_pct`: of its process, of one core."""

    def __init__(self, cluster: StandIn, number: int) -> None:
        self.cluster, self.id = cluster, f"broker-{number}:8080"
        self.server = HttpServer("127.0.0.1")
        self.held: dict[str, float] = {}
        self.cpu_pct = 10.0
        self.answers: dict[str, Answer] = {}  # end of a path -> what it answers instead
        self.asked: list[tuple[str, str]] = []  # path, Authorization header

    @property
    def url(self) -> str:
        """Its web address."""
        return self.server.url

    async def answer(self, request: Request) -> Response:
        """Whatever it is asked for."""
        path = request.url.path
        self.asked.append((path, request.headers.get("authorization", "")))
        for end, instead in self.answers.items():
            if path.endswith(end):
                found = instead(self, request)
                found = await found if asyncio.iscoroutine(found) else found
                return found if isinstance(found, Response) else JSONResponse(found)
        if self.cluster.token and request.headers.get("authorization") != f"Bearer {self.cluster.token}":
            return JSONResponse({"reason": "Authentication required"}, 401)
        return self.cluster.change(request.method, path) or self._usual(path)

    def _usual(self, path: str) -> Response:
        if path.endswith("/ownedNamespaces"):
            broker = path.split("/")[-2]
            if broker != self.id:
                url = self.cluster.by_id[broker].url if broker in self.cluster.by_id else ""
                return RedirectResponse(f"{url}{path}", 307) if url else JSONResponse({"reason": "gone"}, 404)
            state = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
            heartbeats = [f"pulsar/{self.id}/0x00000000_0xffffffff", f"pulsar/c/{self.id}/0x00000000_0xffffffff"]
            return JSONResponse(dict.fromkeys((*self.held, *heartbeats), state))
        found = self.cluster.shared(path)
        if found is None:
            found = {"load-report": self.load_report, "mbeans": self.mbeans, "metrics": self.metrics,
                     "topics": self.topics}.get(path.rpartition("/")[2], lambda: None)()  # fmt: skip
        if found is None:
            return JSONResponse({"reason": f"nothing at {path}"}, 404)
        return found if isinstance(found, Response) else JSONResponse(found)

    def load_report(self) -> Any:
        """The recorded report of the modular manager with this broker's bundles; the other manager refuses."""
        if self.cluster.extensible:
            return JSONResponse(recorded("extensible_load-report_b2"), 500)
        rows = {name: STATS | {"msgRateIn": rate, "msgThroughputIn": 1000 * rate} for name, rate in self.held.items()}
        total = sum(self.held.values())
        sums = {"msgRateIn": total, "msgThroughputIn": 1000 * total, "msgRateOut": 0.0, "msgThroughputOut": 0.0}
        return {**recorded("modular_load-report_b2"), **sums, "lastStats": rows, "bundles": list(rows)}

    def mbeans(self) -> Any:
        """CPU time grows with the cluster's clock."""
        cpu_ns = int(self.cluster.now_s() * self.cpu_pct / 100 * 1e9)
        return [
            {"metrics": {"ProcessCpuTime": cpu_ns, "AvailableProcessors": 2, "ProcessCpuLoad": "NaN"},
             "dimensions": {"MBean": "java.lang:type=OperatingSystem"}},
            {"metrics": {"StartTime": 1_795_000_000_000}, "dimensions": {"MBean": "java.lang:type=Runtime"}},
        ]  # fmt: skip

    def metrics(self) -> Any:
        """Usages in percent, as the extensible manager tells them."""
        load = {"brk_lb_cpu_usage": 30.0, "brk_lb_bandwidth_in_usage": 0.0, "brk_lb_memory_usage": 20.0}
        jvm = {"jvm_heap_used": 100 << 20, "jvm_max_memory": 400 << 20, "jvm_max_direct_memory": 384 << 20}
        return [
            {"metrics": load, "dimensions": {"metric": "loadBalancing", "broker": self.id}},
            {"metrics": jvm, "dimensions": {"metric": "jvm_metrics"}},
        ]

    def topics(self) -> Any:
        """Two topics a bundle, sharing its rate."""
        found: dict[str, Any] = {}
        for name, rate in self.held.items():
            namespace, _, range_ = name.rpartition("/")
            topic = {"msgRateIn": rate / 2, "msgThroughputIn": 500 * rate, "publishers": [{}], "backlogSize": 10}
            subscriptions = {"s": {"consumers": [{"address": "/10.0.0.1:1"}], "unackedMessages": 3}}
            topics = {f"persistent://{namespace}/{at}": {**topic, "subscriptions": subscriptions} for at in "ab"}
            found.setdefault(namespace, {})[range_] = {"persistent": topics}
        return found


class StandIn:
    """The cluster. `token`: what brokers want to see, if anything."""

    def __init__(self, brokers: int = 3, extensible: bool = False) -> None:
        self.extensible, self.token = extensible, ""
        self.released = asyncio.Event()
        self.brokers = [Broker(self, number + 1) for number in range(brokers)]
        self.by_id = {broker.id: broker for broker in self.brokers}
        self.listed = sorted(self.by_id)
        self.stats_period_s = 60
        self.configured = {"loadBalancerSheddingEnabled": "true"}  # in broker.conf
        self.overrides: dict[str, str] = {}
        self.changes: list[tuple[str, str, str]] = []  # method, setting, value of every write

    def now_s(self) -> float:
        """The clock of CPU times."""
        return asyncio.get_running_loop().time()

    def shared(self, path: str) -> Any:
        """What every broker answers alike; None for what is a broker's own."""
        if path == "/admin/v2/clusters":
            return ["global", CLUSTER]
        if path == f"/admin/v2/brokers/{CLUSTER}":
            return self.listed
        if path.endswith("/configuration/runtime"):
            name = "extensions.ExtensibleLoadManagerImpl" if self.extensible else "impl.ModularLoadManagerImpl"
            return {
                "clusterName": CLUSTER, "loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.{name}",
                "statsUpdateFrequencyInSecs": str(self.stats_period_s),
                "brokerClientAuthenticationParameters": "token:SECRET-OF-THE-BROKER",
                **self.configured, **self.overrides,
            }  # fmt: skip
        if path.endswith("/configuration/values"):
            return self.overrides
        return {} if path.endswith("/namespaceIsolationPolicies") else None

    def change(self, method: str, path: str) -> Response | None:
        """Write or remove a dynamic setting; None for any other path."""
        setting, _, value = path.partition("/brokers/configuration/")[2].partition("/")
        if method not in ("POST", "DELETE") or not setting:
            return None
        self.changes.append((method, setting, value))
        if method == "POST":
            self.overrides[setting] = value
        else:
            self.overrides.pop(setting, None)
        return Response(status_code=204)

    def settings(self, **values: Any) -> PulsarCluster:
        """Settings that reach it at its first broker."""
        return PulsarCluster(**{"service_urls": (self.brokers[0].url,), "read_timeout_s": 20.0, **values})


@asynccontextmanager
async def stand_in(brokers: int = 3, extensible: bool = False) -> AsyncIterator[StandIn]:
    """A running stand-in."""
    cluster = StandIn(brokers, extensible)
    for broker in cluster.brokers:
        broker.server.start(
            Starlette(routes=[Route("/{path:path}", broker.answer, methods=["GET", "PUT", "POST", "DELETE"])])
        )
    try:
        yield cluster
    finally:
        cluster.released.set()
        await asyncio.gather(*(broker.server.stop() for broker in cluster.brokers))


async def hang(broker: Broker, request: Request) -> Response:
    """Answer when the cluster ends."""
    await broker.cluster.released.wait()
    return Response()


def broken_off(broker: Broker, request: Request) -> Response:
    """Promise more than is sent."""

    async def half() -> AsyncIterator[bytes]:
        yield b'{"t1/ns1": {"0x00000000_0xffffffff"'

    return StreamingResponse(half(), headers={"Content-Length": "10000"})


def status(code: int, reason: str = "") -> Answer:
    """Refuse with a status."""
    return lambda broker, request: JSONResponse({"reason": reason}, code)


def ingress_404(broker: Broker, request: Request) -> Response:
    """What nginx answers in place of a broker that it does not know."""
    page = "<html><head><title>404 Not Found</title></head><body><center><h1>404 Not Found</h1></center></body></html>"
    return HTMLResponse(page, 404)


def say(body: bytes | str | Path) -> Answer:
    """Answer with this body."""
    content = body.read_bytes() if isinstance(body, Path) else body
    return lambda broker, request: Response(content, media_type="application/json")
