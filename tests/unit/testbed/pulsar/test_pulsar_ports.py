"""Ports of a local Pulsar cluster are checked before anything starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from controller.testbed.pulsar.ports import answers, check_free
from controller.testbed.pulsar.spec import LOOPBACK, PulsarFailed, make_spec


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_every_busy_port_is_named_with_its_server(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    if not 1_024 + 81 <= port <= 65_400:
        pytest.skip("the kernel gave a port at the end of the range")
    spec = make_spec(pulsar="4.0.8", base_port=port - 81, brokers=(1, 2))
    with pytest.raises(PulsarFailed, match=rf"in use by another program: {port} \(broker1\)\. .*--base-port"):
        check_free(spec, ["broker1"], patience_s=0)
    assert answers(LOOPBACK, port)


def test_a_port_is_free_again_after_its_listener(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    spec = make_spec(pulsar="4.0.8", base_port=min(port, 65_400))
    listener.close()
    check_free(spec, ["zookeeper"])
    assert not answers(LOOPBACK, port)
