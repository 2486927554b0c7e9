"""What Java reads of the values and paths that it is given."""

from __future__ import annotations

import locale
from pathlib import Path

import pytest

from controller.process.setup_java import property_value, utf8_locale
from controller.process.spark_submit import LOCAL_SPARK_CONF, spark_environment
from controller.testbed.kafka_cluster.logins import Logins
from controller.testbed.kafka_cluster.node_settings import node_properties
from controller.testbed.kafka_cluster.spec import ClusterSpec, Ports
from controller.testbed.kafka_settings import Door, log4j_properties, server_properties
from controller.testbed.pulsar import server_files
from controller.testbed.pulsar.spec import make_spec

ODD = Path("/tmp/kä\\test/𝄞")
WRITTEN = "/tmp/k\\u00e4\\\\test/\\ud834\\udd1e"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/var/lib/kafka data=1:2", "/var/lib/kafka data=1:2"),
        (str(ODD), WRITTEN),
        (" a\nb\r", "\\ a\\nb\\r"),
        ("\udce4", "\\udce4"),
        ("", ""),
    ],
)
def test_a_value_is_ascii_and_escaped(text: str, written: str) -> None:
    assert property_value(text) == written


def test_no_file_for_a_server_holds_a_path_as_it_is() -> None:
    spec = ClusterSpec("id", True, (Ports(1, 2, 3),))
    pulsar = make_spec(pulsar="4.0.8")
    texts = [
        server_properties(ODD, 1, 2, [Door(3, 4, "SSL", {"ssl.keystore.location": str(ODD)})]),
        log4j_properties(ODD),
        node_properties(spec, 1, ODD, Logins(ODD)),
        server_files.zookeeper_conf(pulsar, ODD),
        server_files.overlay("", server_files.bookie_changes(pulsar, ODD)),
    ]
    for text in texts:
        assert text.isascii()
        assert f"={WRITTEN}" in text
    assert f"listener.name.door0.ssl.keystore.location={WRITTEN}\n" in texts[0]


@pytest.mark.parametrize(("codeset", "more"), [("UTF-8", {}), ("utf8", {}), ("ANSI_X3.4-1968", {"LC_ALL": "C.UTF-8"})])
def test_a_jvm_can_open_any_path_whatever_the_locale(
    monkeypatch: pytest.MonkeyPatch, codeset: str, more: dict[str, str]
) -> None:
    monkeypatch.setattr(locale, "nl_langinfo", lambda item: codeset)
    assert utf8_locale() == more
    assert spark_environment({"LC_ALL": "C"}, LOCAL_SPARK_CONF)["LC_ALL"] == more.get("LC_ALL", "C")
