"""What the metadata service of a machine in AWS answers (its second version): a session's token, a role and its keys.

The server answers for it (`server`), as nothing in the clients' process could while delta-rs holds Python's lock.
"""

from __future__ import annotations

import json

ROLE, ROLE_KEY, TOKEN = "ballast", "AKIAOFTHEROLE", "token-of-a-session"
SESSION = "HTTP_X_AWS_EC2_METADATA_TOKEN"
TOKEN_LASTS = [("X-aws-ec2-metadata-token-ttl-seconds", "21600")]
_ROLES = "/latest/meta-data/iam/security-credentials/"
_KEYS = {
    "Code": "Success",
    "Type": "AWS-HMAC",
    "LastUpdated": "2026-01-01T00:00:00Z",
    "AccessKeyId": ROLE_KEY,
    "SecretAccessKey": "secret-of-the-role",
    "Token": "session-of-the-role",
    "Expiration": "2099-01-01T00:00:00Z",
}


def answer_of_machine(method: str, path: str, token: str) -> tuple[bytes, str]:
    """Body and status."""
    if (method, path) == ("PUT", "/latest/api/token"):
        return TOKEN.encode(), "200 OK"
    if token != TOKEN:
        return b"", "401 Unauthorized"
    answers = {_ROLES: ROLE, f"{_ROLES}{ROLE}": json.dumps(_KEYS), "/latest/meta-data/placement/region": "us-east-1"}
    return (answers[path].encode(), "200 OK") if path in answers else (b"", "404 Not Found")
