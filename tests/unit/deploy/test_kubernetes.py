"""The manifests fit the resources they are for, each other, the container file, and what Ballast really serves."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from controller.config.http_access import check_http_access
from controller.config.load import load_settings
from controller.config.settings import Settings, is_secret
from controller.domain.ids import check_broker_id
from controller.process.access.endpoints import PATHS
from controller.process.paths import cache_of
from controller.process.setup import LOCK_FILE
from controller.process.setup_lock import read_lock
from controller.service.arguments import parse_arguments
from tests.unit.deploy.recipes import (
    DEPLOY,
    SPARK_VERSION,
    check_command,
    cluster_settings,
    configuration_file,
    faults,
    objects,
    parts,
)
from tests.unit.deploy.reduced_crd import reduced

FILES = sorted(file.name for file in (DEPLOY / "kubernetes").iterdir())
EVERYTHING = [found for name in FILES for found in objects(name)]
OURS = "ballast:0.2.0"
YOURS = {"pulsar-broker"}  # ConfigMaps that the recipes leave to their user


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [found for found in EVERYTHING if found["kind"] == kind]


def application() -> dict[str, Any]:
    (found,) = of_kind("SparkApplication")
    return found


def pods() -> list[dict[str, Any]]:
    """The specifications of pods with `containers`, and driver and executor in the same form."""
    plain = [part for found in EVERYTHING for part in parts(found) if "containers" in part]
    spec = application()["spec"]
    return [*plain, {"volumes": spec["volumes"], "containers": [spec["driver"], spec["executor"]]}]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["containers"]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The configuration of the ConfigMap."""
    (found,) = of_kind("ConfigMap")
    return load_settings(configuration_file(found["data"]["ballast.yaml"], tmp_path), env={})


def test_the_application_has_only_fields_and_values_that_the_resource_has() -> None:
    assert faults(application(), "spark_application.yaml") == []
    wrong = copy.deepcopy(application())
    wrong["spec"]["driver"]["livenessProbe"] = {}
    wrong["spec"]["sparkConf"]["spark.speculation"] = False
    assert len(faults(wrong, "spark_application.yaml")) == 2


def test_the_schema_of_the_application_has_all_fields_of_the_crd_but_those_that_it_names() -> None:
    pod = {"properties": {"cores": {"type": "integer", "description": "…", "minimum": 1}, "affinity": {}}}
    spec = {"description": "…", "required": ["driver"], "properties": {"driver": pod}}
    schema = {"required": ["spec"], "properties": {"metadata": {}, "spec": spec, "status": {}}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
    made = reduced({"spec": {"group": "some.io", "names": {"kind": "Some"}, "versions": versions}})
    cores = {"type": "integer", "minimum": 1}
    driver = {"additionalProperties": False, "properties": {"cores": cores}}
    assert made["properties"]["spec"] == {
        "required": ["driver"], "additionalProperties": False, "properties": {"driver": driver},
    }  # fmt: skip
    assert made["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert made["properties"]["apiVersion"] == {"const": "some.io/v1"}
    assert made["additionalProperties"] is False


def test_the_application_runs_the_jars_and_settings_that_tests_run() -> None:
    spec = application()["spec"]
    home = re.findall(r"--dir (\S+)", (DEPLOY / "container" / "Containerfile").read_text())[0]
    cache = cache_of(Path(home)) / "spark"
    locked = {f"local://{cache / jar.coordinate.file_name}" for jar in read_lock(LOCK_FILE).of_group("spark")}
    assert set(spec["deps"]["jars"]) == locked
    assert spec["sparkVersion"] == SPARK_VERSION
    ours = {key: value for key, value in spec["sparkConf"].items() if key != "spark.pyspark.python"}
    assert ours == cluster_settings()


def test_paths_inside_the_container_are_made_by_its_file() -> None:
    recipe = (DEPLOY / "container" / "Containerfile").read_text()
    spec = application()["spec"]
    assert spec["sparkConf"]["spark.pyspark.python"] in recipe
    folder, script = spec["mainApplicationFile"].removeprefix("local://").rsplit("/", 1)
    assert f" {folder}\n" in recipe
    assert script == "balance.py"


def test_commands_are_accepted() -> None:
    commands = [container["args"] for container in containers() if container.get("image") == OURS]
    assert {words[1] for words in commands} == {"store", "agent", "maintain"}
    for words in commands:
        assert words[0] == "ballast"
        check_command(words[1:])
    parse_arguments(application()["spec"]["arguments"])
    with pytest.raises(Exception, match="--data-prot"):
        check_command(["agent", "--broker-id", "b", "--data-prot", "1"])


def test_a_broker_has_a_name_that_clients_find(settings: Settings) -> None:
    (broker,) = [found for found in of_kind("StatefulSet") if found["metadata"]["name"] == "broker"]
    (container,) = broker["spec"]["template"]["spec"]["containers"]
    words, named = container["args"], {entry["name"]: entry for entry in container["env"]}
    name = words[words.index("--broker-id") + 1]
    assert named[name[2:-1]]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    check_broker_id("broker-0")
    variable = "BALLAST_AGENT__ADVERTISED_HOST"
    address = named[variable]["value"].replace(name, "broker-0")
    assert address == f"broker-0.{broker['spec']['serviceName']}.{broker['metadata']['namespace']}"
    assert load_settings(None, "cluster", env={variable: address}).agent.advertised_host == address


def test_the_configuration_would_let_job_and_agents_start(settings: Settings) -> None:
    for key in ("http.bind_host", "agent.bind_host"):
        check_http_access(settings, key)
    assert settings.tables.root.startswith("s3://")
    service = {found["metadata"]["name"]: found["spec"]["ports"] for found in of_kind("Service")}
    assert [port["port"] for port in service["job"]] == [settings.http.job_port]
    assert settings.http.agent_port in [port["port"] for port in service["broker"]]
    name, _, port = settings.store.address.partition(":")
    assert (name, int(port)) == ("store.ballast", service["store"][0]["port"])


def test_probes_ask_what_is_served_without_a_token(settings: Settings) -> None:
    asked = []
    for container in containers():
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in (value for key, value in container.items() if key.endswith("Probe")):
            if "tcpSocket" in probe:
                assert probe["tcpSocket"]["port"] in ports
                continue
            asked.append(probe["httpGet"]["path"])
            assert ports[probe["httpGet"]["port"]] == settings.http.agent_port
    assert set(asked) == {PATHS[name] for name in settings.http.open} == set(PATHS.values())


def test_a_restart_never_depends_on_health() -> None:
    """A restart mends nothing for an agent without Kafka; and a sidecar is not the broker's readiness."""
    for container in containers():
        for kind in ("startupProbe", "livenessProbe"):
            if kind in container:
                assert container[kind]["httpGet"]["path"] == "/metrics"
    (pod,) = [pod for pod in pods() if {each.get("name") for each in pod["containers"]} == {"broker", "agent"}]
    assert "readinessProbe" not in pod["containers"][1]


def test_every_mount_has_its_volume_and_every_volume_is_there() -> None:
    claims = {found["metadata"]["name"] for found in of_kind("PersistentVolumeClaim")}
    maps = {found["metadata"]["name"] for found in of_kind("ConfigMap")} | YOURS
    secrets = set(re.findall(r"secret generic (\S+)", (DEPLOY / "kubernetes" / "config.yaml").read_text()))
    named = set()
    for pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounted = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])}
        assert mounted - {"data"} == volumes.keys()  # `data` is a claim of the StatefulSet
        for volume in volumes.values():
            named |= {volume["secret"]["secretName"]} if "secret" in volume else set()
            assert volume.get("configMap", {}).get("name", "ballast") in maps
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "checkpoints") in claims
    assert named == secrets == {"ballast-http", "ballast-kafka", "ballast-s3"}


def test_files_that_the_configuration_names_are_mounted_where_they_are_read(settings: Settings) -> None:
    (found,) = of_kind("ConfigMap")
    files = {Path(file).parent for file in re.findall(r"/etc/ballast-[\w./-]+", found["data"]["ballast.yaml"])}
    spec = application()["spec"]
    agents = [container for container in containers() if "agent" in container.get("args", [])]
    assert len(agents) == 2
    for container in (spec["driver"], *agents):
        assert files <= {Path(mount["mountPath"]) for mount in container["volumeMounts"]}
    for entry in (entry for container in containers() for entry in container.get("env", [])):
        if entry["name"] == "AWS_SHARED_CREDENTIALS_FILE":
            assert Path(entry["value"]) == Path("/etc/ballast-s3/credentials")
    assert [Path(mount["mountPath"]) for mount in spec["executor"]["volumeMounts"]] == [Path("/etc/ballast-kafka")]
    (checkpoints,) = [m["mountPath"] for m in spec["driver"]["volumeMounts"] if m["name"] == "checkpoints"]
    assert settings.tables.checkpoints == checkpoints


def test_no_secret_is_in_the_environment_or_in_a_manifest() -> None:
    assert of_kind("Secret") == []
    for container in containers():
        assert "envFrom" not in container or container["envFrom"] == [{"configMapRef": {"name": "pulsar-broker"}}]
        for entry in container.get("env", []):
            assert "secretKeyRef" not in entry.get("valueFrom", {})
            assert not is_secret(entry["name"]) or entry["name"].endswith("_FILE")
    (found,) = of_kind("ConfigMap")
    assert not [
        line for line in found["data"]["ballast.yaml"].splitlines() if re.search(r"password|secret|_key:", line)
    ]


def test_nobody_is_root() -> None:
    for pod in pods():
        for container in pod["containers"]:
            if container.get("image") not in (OURS, None):
                continue
            of_pod = container.get("podSecurityContext", pod.get("securityContext", {}))
            context = {**of_pod, **container["securityContext"]}
            assert context["runAsNonRoot"] is True
            assert context["runAsUser"] == 185
            assert context["allowPrivilegeEscalation"] is False


def test_services_find_their_pods_and_bring_no_variables_that_look_like_settings() -> None:
    labels = [found["spec"]["template"]["metadata"]["labels"] for found in of_kind("StatefulSet")]
    labels.append({"sparkoperator.k8s.io/app-name": application()["metadata"]["name"], "spark-role": "driver"})
    services = {found["metadata"]["name"]: found["spec"] for found in of_kind("Service")}
    assert all(spec["selector"] in labels for spec in services.values())
    for found in of_kind("StatefulSet"):
        assert found["spec"]["serviceName"] in services
        assert found["spec"]["selector"]["matchLabels"] in labels
    assert not [name for name in services if name.startswith("ballast")]  # BALLAST_… in every pod of the namespace
    assert {found["metadata"]["namespace"] for found in EVERYTHING if found["kind"] != "Namespace"} == {"ballast"}
