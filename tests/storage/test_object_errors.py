"""What people read when a request to a store fails, of texts as obstore makes them."""

from __future__ import annotations

import pytest

from paimon_pyds.errors import OptionError, StorageError
from paimon_pyds.storage import open_file_io
from paimon_pyds.storage.object_errors import bucket_word, hint_of, lacks_credentials, reason_of

_FRAME = (
    "Generic S3 error: Error performing list request: Error performing GET http://h:9000/b?list-type=2&prefix=t%2F in "
)
_REFUSED = f"""{_FRAME}30.45ms - Server returned non-2xx status code: 403 Forbidden: <?xml version='1.0'?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature does not match.</Message><StringToSign>AWS4

Debug source: …"""


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        (_REFUSED, "status 403 Forbidden, SignatureDoesNotMatch: The request signature does not match.", "credentials"),
        (f"{_FRAME}1.5s, after 5 retries, retry_timeout: 20s  - HTTP error: error sending request",
         "no answer from http://h:9000", "network"),
        ("Generic GCS error: GCP credential error: Unable to open service account file from /k: No such file",
         "Unable to open service account file from /k: No such file", "credentials"),
        ("Error performing PUT http://127.0.0.1:44030/b401 in 3.640194ms - 400: AuthorizationHeaderMalformed",
         None, "s3.region"),
        ("Error performing GET http://127.0.0.1:40301/b in 1.403ms - broken", None, "network"),
    ],
)  # fmt: skip
def test_reasons_and_hints(text: str, reason: str | None, hint: str) -> None:
    assert reason in (None, reason_of(text))
    assert hint in hint_of(text, "s3")


def test_words_of_each_kind() -> None:
    assert lacks_credentials("Error performing PUT http://169.254.169.254/latest/api/token - HTTP error: error")
    for kind, option in (("s3", "s3.access-key"), ("gcs", "keyfile"), ("azure", "azure.account-key")):
        assert option in hint_of("http://169.254.169.254/", kind)
    assert (bucket_word("azure"), bucket_word("s3")) == ("container", "bucket")


def test_an_address_of_azure_without_a_container() -> None:
    pytest.importorskip("obstore")
    with pytest.raises(OptionError, match=r"names no container.*CONTAINER@ACCOUNT"):
        open_file_io("abfss://account.dfs.core.windows.net/shop.db/orders")


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's identity is requested at an address that takes no connections here."""
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/169.254.169.254")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    io, path = open_file_io("s3://bucket/t", {"s3.region": "eu-central-1", "s3.retry-timeout": "1"})
    with pytest.raises(StorageError, match=r"no credentials were given.*s3\.anonymous"):
        io.list(path)
