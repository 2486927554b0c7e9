"""tests/data/deploy/spark_application.yaml from the CRD of spark-operator: fields, types and values, no descriptions.

    git -C spark-operator show v2.5.2:config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml > crd.yaml
    python -m tests.unit.deploy.reduced_crd v2.5.2 < crd.yaml

A field that the CRD lacks is refused here, where the API server would drop it. Left out are `status` and the parts of a
pod that are large and that the recipe has no use for (`LEFT_OUT`): give one of them back before the recipe uses it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import yaml

from tests.unit.deploy.recipes import SCHEMAS

FILE = SCHEMAS / "spark_application.yaml"
HEADER = """\
# The schema of spark-operator's resource SparkApplication, made by `python -m tests.unit.deploy.reduced_crd` from the
# CRD sparkoperator.k8s.io_sparkapplications.yaml of version {version} (kubeflow/spark-operator, Apache License 2.0).
# Changed by the script: no descriptions, no defaults, no status, not every part of a pod; other fields are refused.
"""
KEPT = ("type", "required", "items", "enum", "minimum", "maximum", "pattern", "anyOf", "additionalProperties")
LEFT_OUT = ("affinity", "initContainers", "sidecars", "lifecycle")
# The CRD says of it only that it is an object: the API server knows the rest.
METADATA = {
    "type": "object", "required": ["name"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}},
}  # fmt: skip


def reduced(crd: dict[str, Any]) -> dict[str, Any]:
    """The schema of the newest version of a CRD."""
    version = crd["spec"]["versions"][-1]
    schema: dict[str, Any] = _closed(version["schema"]["openAPIV3Schema"], {})
    fields = schema["properties"]
    del fields["status"]
    fields["apiVersion"] = {"const": f"{crd['spec']['group']}/{version['name']}"}
    fields["kind"] = {"const": crd["spec"]["names"]["kind"]}
    fields["metadata"] = METADATA
    schema["required"] = ["apiVersion", "kind", *schema["required"]]
    return schema


def _closed(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The same without what only people read, closed to other fields. Equal parts are one object, which YAML names."""
    found: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _closed(found[key], known)
    if "properties" in schema:
        found["additionalProperties"] = False
        found["properties"] = {
            name: _closed(part, known) for name, part in schema["properties"].items() if name not in LEFT_OUT
        }
    return known.setdefault(json.dumps(found, sort_keys=True), found)


def main() -> None:
    """The CRD comes on the standard input."""
    schema = reduced(yaml.safe_load(sys.stdin))
    FILE.write_text(HEADER.format(version=sys.argv[1]) + yaml.safe_dump(schema, width=120, default_flow_style=None))


if __name__ == "__main__":
    main()
