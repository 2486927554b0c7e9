"""What a local Pulsar cluster is: its ports and addresses, its file, and what is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import MOST_BROKERS, SPEC_FILE, make_spec, read_spec, write_spec


def test_the_file_gives_back_what_was_stored_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    spec = make_spec(pulsar="4.0.8", manager="extensible", brokers=(1, 2, 4), settings={"a": "b=c"}, broker_cores=0.4)
    assert read_spec(tmp_path) is None
    write_spec(tmp_path, spec)
    write_spec(tmp_path, spec)
    assert read_spec(tmp_path) == spec
    assert [file.name for file in tmp_path.iterdir()] == [SPEC_FILE]
    assert stat.S_IMODE((tmp_path / SPEC_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pulsar": "4.0.8", "unknown": 1}', '{"pulsar": "4.0.8", "brokers": [0]}']
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / SPEC_FILE).write_text(text)
    with pytest.raises(ConfigError, match=r"cluster\.json is damaged .* pids .* remove the folder"):
        read_spec(tmp_path)


def test_no_two_servers_share_a_port() -> None:
    spec = make_spec(pulsar="4.0.8", brokers=tuple(range(1, MOST_BROKERS + 1)), base_port=20_000)
    ports = [p for name in spec.server_names for p in spec.ports(name) if p is not None]
    assert len(ports) == len(set(ports)) == 2 + 2 * MOST_BROKERS
    assert set(ports) <= set(range(20_000, 20_100))


def test_addresses_follow_the_transport() -> None:
    plain, secure = (make_spec(pulsar="4.0.8", tls=tls) for tls in (False, True))
    assert (plain.web_url("broker2"), plain.client_url("broker2")) == (
        "http://127.0.0.1:18082",
        "pulsar://127.0.0.1:18052",
    )
    assert (secure.web_url("broker2"), secure.client_url("broker2")) == (
        "https://127.0.0.1:18082",
        "pulsar+ssl://127.0.0.1:18052",
    )
    assert plain.broker_id("broker2") == secure.broker_id("broker2") == "127.0.0.1:18082"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"manager": "simple"}, r"manager: .*'modular' or 'extensible' \(given: 'simple'\)"),
        ({"auth": "tls"}, r"authentication by certificates needs TLS: add --tls"),
        ({"brokers": ()}, r"brokers: brokers are numbered"),
        ({"brokers": (1, 1)}, r"brokers: brokers are numbered"),
        ({"brokers": (20,)}, r"less than or equal to 19 \(given: 20\)"),
        ({"base_port": 80}, r"base_port: .* 1024 \(given: 80\)"),
        ({"broker_cores": 0.0}, r"broker_cores: .*greater than 0"),
        ({"broker_cores": float("nan")}, r"broker_cores"),
    ],
)
def test_a_bad_choice_is_named(choices: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_spec(pulsar="4.0.8", **choices)


def test_a_choice_that_contradicts_another_shows_no_settings() -> None:
    with pytest.raises(ConfigError) as caught:
        make_spec(pulsar="4.0.8", auth="tls", settings={"password": "secret-1"})
    assert str(caught.value) == "authentication by certificates needs TLS: add --tls"


def test_an_unknown_server_is_refused_with_those_there_are() -> None:
    spec = make_spec(pulsar="4.0.8", brokers=(1, 2))
    with pytest.raises(ConfigError, match=r"no server 'broker3' .* zookeeper, bookie, broker1, broker2"):
        spec.ports("broker3")


def test_a_folder_keeps_its_cluster_and_does_not_show_values_of_settings(tmp_path: Path) -> None:
    spec = make_spec(pulsar="4.0.8", settings={"password": "secret-1"})
    write_spec(tmp_path, spec)
    assert PulsarCluster(tmp_path, spec).spec == PulsarCluster.open(tmp_path).spec == spec
    with pytest.raises(ConfigError, match=r"holds another cluster: manager is modular, not extensible\. .*--wipe"):
        PulsarCluster(tmp_path, spec.model_copy(update={"manager": "extensible"}))
    with pytest.raises(ConfigError, match=r"other values of password") as caught:
        PulsarCluster(tmp_path, spec.model_copy(update={"settings": {"password": "secret-2"}}))
    assert "secret-" not in str(caught.value)


def test_a_folder_without_a_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no Pulsar cluster: start one with `ballast pulsar dev up --dir"):
        PulsarCluster.open(tmp_path)


def test_clients_get_the_addresses_of_all_brokers(tmp_path: Path) -> None:
    cluster = PulsarCluster(tmp_path, make_spec(pulsar="4.0.8", brokers=(1, 2)))
    assert cluster.client_url == "pulsar://127.0.0.1:18051,127.0.0.1:18052"
    assert cluster.web_urls == ["http://127.0.0.1:18081", "http://127.0.0.1:18082"]
