"""The few admin calls that a test cluster needs: is a broker ready, what does it own, make a namespace.

It asks one named broker, follows redirects between brokers with the same method, and ignores proxies of the
environment. Balancing has its own client with its own rules; this one serves the testbed alone.
"""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any

import httpx

from controller.pulsar.system_namespaces import is_system_service_namespace, namespace_of_bundle_name
from controller.testbed.pulsar.credentials import ADMIN, Credentials
from controller.testbed.pulsar.spec import CLUSTER_NAME, ClusterSpec, PulsarFailed

CALL_TIMEOUT_S = 5.0
_REDIRECTS = (301, 302, 307, 308)


class LocalAdmin:
    """Calls of the role `admin` to the brokers of one cluster."""

    def __init__(self, spec: ClusterSpec, credentials: Credentials) -> None:
        self._spec = spec
        headers = {}
        if spec.auth == "token":
            headers["Authorization"] = f"Bearer {credentials.token(ADMIN).read_text()}"
        self._client = httpx.Client(
            verify=_tls_context(spec, credentials), headers=headers, timeout=CALL_TIMEOUT_S, trust_env=False
        )

    def __enter__(self) -> LocalAdmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def request(
        self, method: str, broker: str, path: str, json: Any = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> httpx.Response:
        """One call to the broker of that name, redirects followed. Raises httpx.HTTPError where nothing answers."""
        url = httpx.URL(self._spec.web_url(broker)).join(path)
        for _ in range(4):
            answer = self._client.request(method, url, json=json, timeout=timeout_s)
            if answer.status_code not in _REDIRECTS:
                return answer
            url = httpx.URL(answer.headers["Location"])
            if not url.host.startswith("127.0.0."):
                raise PulsarFailed(f"{broker} redirects to {url.host}, which is no broker of this cluster")
        return answer

    def is_ready(self, broker: str, timeout_s: float = CALL_TIMEOUT_S) -> bool:
        """Whether the broker says that it is ready."""
        try:
            return self.request("GET", broker, "/admin/v2/brokers/ready", timeout_s=timeout_s).status_code == 200
        except httpx.HTTPError:
            return False

    def listed_brokers(self, broker: str, timeout_s: float = CALL_TIMEOUT_S) -> set[str]:
        """The ids of the live brokers according to this one; empty where it does not answer."""
        try:
            answer = self.request("GET", broker, f"/admin/v2/brokers/{CLUSTER_NAME}", timeout_s=timeout_s)
        except httpx.HTTPError:
            return set()
        return set(answer.json()) if answer.status_code == 200 else set()

    def owned_bundles(self, broker: str, timeout_s: float = CALL_TIMEOUT_S) -> list[str] | None:
        """The bundles that the broker owns, without Pulsar's own; None where it does not answer."""
        path = f"/admin/v2/brokers/{CLUSTER_NAME}/{self._spec.broker_id(broker)}/ownedNamespaces"
        try:
            answer = self.request("GET", broker, path, timeout_s=timeout_s)
        except httpx.HTTPError:
            return None
        if answer.status_code != 200:
            return None
        return sorted(b for b in answer.json() if not is_system_service_namespace(namespace_of_bundle_name(b)))

    def create_namespace(self, broker: str, namespace: str, bundles: int) -> bool:
        """Make a namespace and its tenant; False if the namespace exists. Raises PulsarFailed."""
        tenant = namespace.partition("/")[0]
        answer = self.request(
            "PUT", broker, f"/admin/v2/tenants/{tenant}", {"adminRoles": [], "allowedClusters": [CLUSTER_NAME]}
        )
        if answer.status_code not in (204, 409):
            raise PulsarFailed(f"tenant {tenant} was not created: {explain(answer)}")
        answer = self.request(
            "PUT", broker, f"/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": bundles}}, timeout_s=30.0
        )
        if answer.status_code not in (204, 409):
            raise PulsarFailed(f"namespace {namespace} was not created: {explain(answer)}")
        return answer.status_code == 204

    def grant(self, broker: str, namespace: str, role: str, actions: tuple[str, ...] = ("produce", "consume")) -> None:
        """Let a role produce to and consume from a namespace. Raises PulsarFailed."""
        answer = self.request("POST", broker, f"/admin/v2/namespaces/{namespace}/permissions/{role}", list(actions))
        if answer.status_code != 204:
            raise PulsarFailed(f"{role} got no rights on {namespace}: {explain(answer)}")


def explain(answer: httpx.Response) -> str:
    """The status and Pulsar's own words, in at most 300 characters."""
    try:
        words = str(answer.json()["reason"])
    except (ValueError, KeyError, TypeError):
        words = answer.text.strip()
    return f"{answer.status_code} {words[:280]}".strip()


def _tls_context(spec: ClusterSpec, credentials: Credentials) -> ssl.SSLContext | bool:
    if not spec.tls:
        return True
    context = ssl.create_default_context(cafile=str(credentials.authority))
    if spec.auth == "tls":
        certificate, key = credentials.certificate(ADMIN)
        context.load_cert_chain(certificate, key)
    return context
