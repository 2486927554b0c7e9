"""The proxy that stands for a network: what passes, what is held back, what arrives after it was healed."""

from __future__ import annotations

import socket
import threading

import pytest

from controller.testbed.fault_proxy import CuttableProxy


def test_held_back_while_cut_and_delivered_once_healed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, CuttableProxy(server.getsockname()[1]) as proxy:
        near = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
        far, _ = server.accept()
        far.settimeout(0.3)
        near.sendall(b"before")
        assert far.recv(100) == b"before"
        proxy.cut()
        near.sendall(b"during")
        with pytest.raises(TimeoutError):
            far.recv(100)
        proxy.heal()
        far.settimeout(5)
        assert far.recv(100) == b"during"
        far.sendall(b"answer")
        assert near.recv(100) == b"answer"
        far.close()
        assert near.recv(100) == b"", "an end is passed on"
        near.close()


@pytest.mark.parametrize("there", [True, False])
def test_one_direction_is_cut_and_the_other_passes(there: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, CuttableProxy(server.getsockname()[1]) as proxy:
        near = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
        far, _ = server.accept()
        near.sendall(b"before")
        assert far.recv(100) == b"before"
        proxy.cut(there=there, back=not there)
        sender, receiver = (near, far) if there else (far, near)
        receiver.sendall(b"passes")
        assert sender.recv(100) == b"passes"
        receiver.settimeout(0.3)
        sender.sendall(b"held back")
        with pytest.raises(TimeoutError):
            receiver.recv(100)
        proxy.heal()
        receiver.settimeout(5)
        assert receiver.recv(100) == b"held back"
        near.close()
        far.close()


def test_connection_to_nobody_is_closed_and_new_ones_wait_while_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = server.getsockname()[1]
        with CuttableProxy(target) as proxy:
            proxy.cut()
            near = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
            server.settimeout(0.3)
            with pytest.raises(TimeoutError):
                server.accept()
            proxy.heal()
            server.settimeout(5)
            server.accept()[0].close()
            near.close()
            server.close()
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as refused:
                assert refused.recv(1) == b""
    assert not any(t.name == f"proxy-{proxy.port}" for t in threading.enumerate())
