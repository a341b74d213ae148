"""Texts, options and errors without secrets, and without what a terminal would obey."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.options import OPTIONS
from paimon_pyds.base.secrets import (
    _WORDS,
    RedactedDict,
    holds_secret,
    names_secret,
    redact,
    scrubbed,
    visible,
    without_secrets,
)
from paimon_pyds.errors import PaimonError, PredicateError, StorageError
from paimon_pyds.sql.text.lexer import SqlText
from support.canary import ADDRESSES, CANARY, STORAGE_OPTIONS, TABLE_OPTIONS, is_clean, trace_of


@pytest.mark.parametrize("key", [*STORAGE_OPTIONS, *(k for k, v in TABLE_OPTIONS.items() if v == CANARY)])
@pytest.mark.parametrize(
    "form", ["{}={}", "{} = '{}'", "{}: {}", '"{}" : "{}"', "{{'{}': '{}', 'a': 'b'}}", "('{}', '{}')", "`{}`='{}'",
             "unknown: {}={} at s3://b/t"],
)  # fmt: skip
def test_a_secret_beside_its_name(key: str, form: str) -> None:
    assert names_secret(key) and names_secret(key.upper())
    assert is_clean(redact(form.format(key, CANARY)))
    assert is_clean(str(PaimonError("refused", hint=form.format(key, CANARY))))


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("form", ["{}", "can't read '{}'", "{}, {}", "<a href='{}'>", "at {}\nand on"])
def test_a_secret_in_an_address(address: str, form: str) -> None:
    assert is_clean(redact(form.format(address, address)))
    assert is_clean(trace_of(PaimonError(form.format(address, address), path=address, hint=address)))


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/db.db/t/p=1/bucket-0/f.parquet", "abfss://container@acc.dfs.core.windows.net/t",
        "hdfs://namenode:8020/user/a=b@x.org/f", "the table has no column 'tok'", "disaster=1, sash: 2, significant=3",
        "full-text.tokenizer=jieba", "no Paimon table is here — at /wh/t — did you mean u?", "price * 1.1 = 'sas'",
        "customer_id = 7 AND key = 'a'", "customer_key = 1", "json_key: 1", "master-key=1",
        "the encryption of a key = 1",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text and not holds_secret(text)


def test_no_option_of_paimon_is_a_secret() -> None:
    assert not [key for key in OPTIONS if names_secret(key)]
    assert not names_secret("fields.password.stats-mode") and not names_secret("file-index.bloom-filter.token.fpp")
    assert not names_secret("file-index.bitmap.columns")


@given(st.from_regex(rf"(?ai)\A[a-z._-]{{0,3}}{_WORDS}=hunter2\Z"))
def test_whatever_spelling_of_a_name_is_matched_its_value_goes(text: str) -> None:
    assert "hunter2" not in redact(text).lower()


def test_known_secrets_go_wherever_they_stand() -> None:
    assert redact(f"403 for {CANARY}/x", [CANARY, "x"]) == "403 for ***/x"


def test_a_dictionary_of_options_shows_no_secret_and_has_them() -> None:
    options = RedactedDict({**TABLE_OPTIONS, "bucket": "4"})
    for text in (repr(options), str(options), f"{options}", repr([options])):
        assert is_clean(text) and "'bucket': '4'" in text
    assert options["password"] == CANARY and options == {**TABLE_OPTIONS, "bucket": "4"}
    assert pickle.loads(pickle.dumps(options)) == options
    assert without_secrets(options) == {"bucket": "4"}


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, f"https://a/c?sig={CANARY}"), FileNotFoundError(2, "No such file", f"s3://a:{CANARY}@b"),
        OSError(f"GET https://a/c?sig={CANARY}"), ValueError(f"AccountKey={CANARY}"), KeyError(f"token={CANARY}"),
    ],
)  # fmt: skip
def test_causes_are_printed_too(error: Exception) -> None:
    with pytest.raises(StorageError) as raised:
        raise StorageError("no") from scrubbed(error)
    assert is_clean(trace_of(raised.value)) and "***" in trace_of(raised.value)
    harmless = ValueError("no")
    assert scrubbed(harmless) is harmless


@pytest.mark.parametrize(
    "run", ["token", "://", "a://b:", "a://b:@", "token='", "?sig", "sig=", "key:", "s3://k:" + "v" * 99]
)
def test_long_texts_take_time_by_their_length(run: str) -> None:
    text = run * (100_000 // len(run))
    assert len(redact(text)) <= len(text) + 200_000
    holds_secret(text)


# ------------------------------------------------------------------------------------------------- control characters


HOSTILE = "a\x1b[2J\x1b]0;x\x07\r\nb\x9b31m\u202ec\u2066d\u2028e\u200ff\ud800\x7f\x00"


def test_control_characters_are_written_out() -> None:
    shown = visible(HOSTILE)
    assert shown.isprintable() and shown.isascii()
    assert shown.startswith(r"a\x1b[2J\x1b]0;x\x07\r\nb\x9b31m\u202ec")
    assert visible("né 日本 😀 — plain") == "né 日本 😀 — plain" and visible(shown) == shown


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_errors_are_printed_as_one_line(message: str, path: str, hint: str) -> None:
    error = PaimonError(message + HOSTILE, path=path + HOSTILE, hint=hint + HOSTILE)
    for text in (str(error), str(pickle.loads(pickle.dumps(error)))):
        assert visible(text) == text


def test_the_line_of_a_filter_keeps_its_caret_below() -> None:
    error = SqlText("x = 1 and\n`\x1b[2J` = = 2").error(18, f"odd {HOSTILE}", HOSTILE)
    assert isinstance(error, PredicateError)
    message, line, caret = error.message.split("\n")
    assert (line, caret) == (r"  `\x1b[2J` = = 2", " " * 13 + "^")
    assert visible(message) == message and visible(str(error).replace("\n", "")) == str(error).replace("\n", "")
