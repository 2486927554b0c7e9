"""What is shown of texts that may hold credentials."""

from __future__ import annotations

import pytest

from controller.domain.errors import describe_error, without_login


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3a://KEY:SE/CRET@bucket/x", "s3a://***@bucket/x"),
        ("abfss://container@account/x", "abfss://container@account/x"),
        ("https://TOKEN@host/a", "https://***@host/a"),
        ("kafka = u:p@h:9092,v:q@i:9092", "kafka = ***@h:9092,***@i:9092"),
        ("a 'u:p@h' (u:p@h)", "a '***@h' (***@h)"),
        (f"https://user:{'x' * 3_000}@host/p u:{'x' * 3_000}@h", "https://***@host/p ***@h"),
        ("HTTPS://tok@host pulsar+ssl://tok@host", "HTTPS://***@host pulsar+ssl://***@host"),
        ("h/?a=1&api_token=x&b=2#accessToken=y;sig=z", "h/?a=1&api_token=***&b=2#accessToken=***;sig=***"),
        (
            "s3://b/x?aws_secret_access_key=x&X-Amz-Signature=y",
            "s3://b/x?aws_secret_access_key=***&X-Amz-Signature=***",
        ),
        ("h/?ssl_passphrase=x&sasl_pw=y&my_apikey=z&pwd=v", "h/?ssl_passphrase=***&sasl_pw=***&my_apikey=***&pwd=***"),
        ("?upward=1&upw=2", "?upward=1&upw=2"),
        (
            "?partitionKey=3&monkey=4&design=5&page_key=2,b1 broker:8080@3",
            "?partitionKey=3&monkey=4&design=5&page_key=2,b1 broker:8080@3",
        ),
        ("local@host b1:8080#3.n.1 12:30 t/n/0x00_0x01", "local@host b1:8080#3.n.1 12:30 t/n/0x00_0x01"),
    ],
)
def test_credentials_are_left_out(text: str, told: str) -> None:
    assert without_login(text) == told


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["http://x", "a:b", "u:p ", "?token", "://a:", "?x=key&", "://x:y", "?a_b.c_", "&pw"])
def test_no_text_takes_for_ever(part: str) -> None:
    """It was hours, where the timeout ends it now."""
    assert without_login(part * 20_000 + "@")


def test_of_a_stores_document_the_code_and_the_message_are_told() -> None:
    answer = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidAccessKeyId</Code>'
        "<Message>The AWS Access Key Id you provided does not exist in our records.</Message>"
        "<RequestId>7a62c49f</RequestId><HostId>Eftix</HostId></Error>"
    )
    told = describe_error(OSError(f"Error performing GET: 403 Forbidden: {answer}"))
    why = "InvalidAccessKeyId, The AWS Access Key Id you provided does not exist in our records."
    assert told == f"Error performing GET: 403 Forbidden: {why}"
    assert describe_error(OSError("<Error>no field</Error>")) == "<Error>no field</Error>"
    assert len(describe_error(OSError("<Error>" * 20_000))) == 140_000, "in no time"
