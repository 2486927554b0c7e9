"""The configuration files of a local Pulsar cluster: the shipped ones with a few values changed."""

from __future__ import annotations

from pathlib import Path

from controller.testbed.pulsar.server_files import broker_changes, known_settings, overlay, zookeeper_conf
from controller.testbed.pulsar.spec import ClusterSpec, make_spec

SHIPPED = """\
### --- General --- ###
# The port
brokerServicePort=6650
 webServicePort = 8080
# loadBalancerSheddingEnabled=false
loadBalancerSheddingEnabled=true
#optional.key=
"""
CREDENTIALS = Path("/clusters/one/credentials")


def values(text: str) -> dict[str, str]:
    """What a reader of properties sees; a key given twice fails."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            key, _, value = line.partition("=")
            assert key.strip() not in found, f"{key} is given twice"
            found[key.strip()] = value.strip()
    return found


def changes(**choices: object) -> dict[str, str]:
    return broker_changes(spec_of(**choices), "broker1", CREDENTIALS)


def spec_of(**choices: object) -> ClusterSpec:
    return make_spec(pulsar="4.0.8", **choices)


def test_changed_keys_replace_the_shipped_ones_and_comments_stay() -> None:
    text = overlay(SHIPPED, {"webServicePort": "18081", "new": "x=y"})
    assert values(text) == {
        "brokerServicePort": "6650",
        "webServicePort": "18081",
        "loadBalancerSheddingEnabled": "true",
        "new": "x=y",
    }
    assert "# The port\n" in text
    assert "# loadBalancerSheddingEnabled=false\n" in text


def test_known_settings_include_those_that_are_commented_out() -> None:
    keys = {"brokerServicePort", "webServicePort", "loadBalancerSheddingEnabled", "optional.key"}
    assert known_settings(SHIPPED) == keys


def test_pulsar_balances_as_shipped_unless_the_user_says_otherwise() -> None:
    assert not [key for key in changes() if "Shedding" in key or "Split" in key or key == "loadBalancerEnabled"]
    assert changes(settings={"loadBalancerSheddingEnabled": "false"})["loadBalancerSheddingEnabled"] == "false"


def test_a_setting_of_the_user_wins() -> None:
    assert changes()["statsUpdateFrequencyInSecs"] == "5"
    assert changes(settings={"statsUpdateFrequencyInSecs": "60"})["statsUpdateFrequencyInSecs"] == "60"


def test_a_cluster_with_tls_has_no_plain_port() -> None:
    plain, secure = changes(), changes(tls=True)
    assert (plain["webServicePort"], plain["webServicePortTls"]) == ("18081", "")
    assert (secure["webServicePort"], secure["brokerServicePort"]) == ("", "")
    assert (secure["webServicePortTls"], secure["brokerServicePortTls"]) == ("18081", "18051")
    assert secure["brokerClientTlsEnabled"] == "true"
    assert secure["tlsRequireTrustedClientCertOnConnect"] == "false"
    assert changes(tls=True, auth="tls")["tlsRequireTrustedClientCertOnConnect"] == "true"


def test_credentials_are_named_by_their_files_alone() -> None:
    token, certificate = changes(auth="token"), changes(auth="tls", tls=True)
    assert token["tokenSecretKey"] == "file:///clusters/one/credentials/secret.key"
    assert token["brokerClientAuthenticationParameters"] == "file:///clusters/one/credentials/broker.token"
    assert token["authenticationProviders"].endswith(".AuthenticationProviderToken")
    assert certificate["authenticationProviders"].endswith(".AuthenticationProviderTls")
    assert certificate["brokerClientAuthenticationPlugin"].endswith(".AuthenticationTls")
    assert "authorizationEnabled" not in changes()


def test_a_folder_with_spaces_is_a_proper_address() -> None:
    token = broker_changes(spec_of(auth="token"), "broker1", Path("/my clusters/credentials"))
    assert token["tokenSecretKey"] == "file:///my%20clusters/credentials/secret.key"


def test_zookeeper_listens_on_loopback_and_opens_no_admin_port() -> None:
    conf = values(zookeeper_conf(spec_of(), Path("/clusters/one/data/zookeeper")))
    assert (conf["clientPortAddress"], conf["clientPort"]) == ("127.0.0.1", "18000")
    assert conf["admin.enableServer"] == "false"
