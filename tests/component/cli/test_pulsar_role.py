"""`ballast pulsar check` names the role that is needed, by what brokers answered and what they refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.component.cli.test_pulsar_wrong_cluster import Site, cluster, site
from tests.unit.brokers.pulsar.stand_in import status

__all__ = ["cluster", "site"]
ROLE = "role is a super-user's"
NOT_ALLOWED = "Unauthorized to validateSuperUserAccess for originalPrincipal [null] and clientAuthRole [viewer]"


def found(site: Site) -> tuple[int, dict[str, dict[str, Any]]]:
    code, said = site.run("check --json")
    return code, {row["requirement"]: row for row in json.loads(said)["requirements"]}


def answer_all(site: Site, path: str, answer: Any) -> None:
    for broker in site.brokers.brokers:
        broker.answers[path] = answer


def test_a_super_user_may_read_all_that_takes_one(site: Site) -> None:
    code, rows = found(site)
    assert (code, rows[ROLE]["state"], rows[ROLE]["remedy"]) == (0, "ok", "")
    assert rows[ROLE]["found"] == "may read brokers/configuration/runtime and broker-stats/mbeans"


def test_a_role_that_may_not_read_statistics_is_none(site: Site) -> None:
    answer_all(site, "/broker-stats/mbeans", status(401, NOT_ALLOWED))
    code, rows = found(site)
    assert (code, rows[ROLE]["state"]) == (1, "not met")
    assert rows[ROLE]["found"].startswith("refused broker-stats/mbeans: HTTP 401: Unauthorized to validateSuperUser")
    assert all(word in rows[ROLE]["remedy"] for word in ("superUserRoles", "--token-file", "unload and split"))
    assert [name for name, row in rows.items() if row["state"] == "not met"] == [ROLE]


@pytest.mark.parametrize("reason", [NOT_ALLOWED, "Authentication required"])
def test_a_role_that_may_read_nothing_is_told_so_and_nothing_else(site: Site, reason: str) -> None:
    answer_all(site, "/configuration/runtime", status(401, reason))
    code, rows = found(site)
    assert (code, list(rows), rows[ROLE]["state"]) == (1, [ROLE], "not met")
    assert rows[ROLE]["found"] == f"refused brokers/configuration/runtime: HTTP 401: {reason}"
    assert "superUserRoles" in rows[ROLE]["remedy"]


def test_statistics_that_fail_for_another_reason_say_nothing_of_the_role(site: Site) -> None:
    answer_all(site, "/broker-stats/mbeans", status(500, "out of heap"))
    code, rows = found(site)
    assert (code, rows[ROLE]["state"], rows[ROLE]["found"]) == (0, "ok", "may read brokers/configuration/runtime")


def test_a_role_that_is_not_enough_changes_nothing(site: Site) -> None:
    answer_all(site, "/broker-stats/mbeans", status(403, "no"))
    site.brokers.overrides = {}
    code, said = site.run("adopt --apply")
    assert (code, site.brokers.changes) == (1, [])
    assert ROLE in said
    assert "Mend this first" in said
