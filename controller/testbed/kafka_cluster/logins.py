"""Who may connect to a secure cluster: certificates, a user and password for each role, files that hold a login.

Everything is made once, in one folder that only its owner can enter. Passwords are on no command line.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from controller.bus.rights import Role
from controller.bus.security import LOGIN_MODULES
from controller.process.setup_java import property_value
from controller.testbed.certificates import Authority
from controller.testbed.secret_files import private_folder, write_secret

ADMIN = "admin"  # a super user, for people and for making topics and ACLs
CLIENT = "client"  # any other program that uses the same Kafka: a login without rights
NODE = "node"  # the common name of the nodes' certificate, by which they know each other
MECHANISM = "SCRAM-SHA-512"
ENV_PREFIX = "BALLAST_KAFKA__CLIENT__"
_PASSWORD_BYTES = 24


class Logins:
    """The folder `logins` of a cluster."""

    def __init__(self, folder: Path, more_users: Iterable[str] = ()) -> None:
        self.folder = folder
        self.users = tuple(dict.fromkeys((ADMIN, *(role.value for role in Role), CLIENT, *more_users)))
        self._issuer = Authority(folder, "--secure")
        self.authority = self._issuer.certificate
        self.key_store = folder / f"{NODE}.pem"

    def make(self) -> None:
        """Make what does not exist yet. Raises CertificateFailed."""
        private_folder(self.folder)
        self._issuer.make()
        if not self.key_store.exists():
            certificate, key = self._issuer.issue(NODE)
            write_secret(self.key_store, key.read_bytes() + certificate.read_bytes())
        for user in self.users:
            if not self._password_file(user).exists():
                write_secret(self._password_file(user), secrets.token_hex(_PASSWORD_BYTES).encode())

    def client(self, user: str) -> dict[str, object]:
        """The settings of a client with this login, as `kafka.client` has them."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": self._password(user),
            "ssl_cafile": str(self.authority),
        }

    def environment(self, user: str) -> dict[str, str]:
        """The same as environment variables of a process."""
        return {f"{ENV_PREFIX}{name.upper()}": str(value) for name, value in self.client(user).items()}

    def scram_arguments(self) -> list[str]:
        """What `kafka-storage format` takes to create the users."""
        return [f"{MECHANISM}=[name={user},password={self._password(user)}]" for user in self.users]

    def write_files(self, bootstrap: str, ballast: Mapping[str, Mapping[str, object]]) -> None:
        """Write each user's login, as a Ballast configuration with these sections, and for Kafka's own tools."""
        for user in self.users:
            sections = {name: dict(section) for name, section in ballast.items()}
            kafka = {"bootstrap_servers": bootstrap, **sections.pop("kafka", {}), "client": self.client(user)}
            document = yaml.safe_dump({"kafka": kafka, **sections}, sort_keys=False)
            write_secret(self.folder / f"{user}.yaml", document.encode())
            lines = [f"{name}={property_value(value)}\n" for name, value in self._properties(user, bootstrap).items()]
            write_secret(self.folder / f"{user}.properties", "".join(lines).encode())

    def _properties(self, user: str, bootstrap: str) -> dict[str, str]:
        login = f'{LOGIN_MODULES[MECHANISM]} required username="{user}" password="{self._password(user)}";'
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def _password(self, user: str) -> str:
        return self._password_file(user).read_text()

    def _password_file(self, user: str) -> Path:
        return self.folder / f"{user}.password"
