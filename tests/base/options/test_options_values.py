from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.options import OPTIONS, Kind, Option, parse_duration_ms, parse_memory, parse_value
from paimon_pyds.errors import OptionError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("1", 1), ("1b", 1), ("1 B", 1), ("500 bytes", 500), ("16kb", 16 << 10), ("16 KB", 16 << 10),
        ("16k", 16 << 10), ("1 kibibytes", 1024), ("128 mb", 128 << 20), ("128m", 128 << 20), ("2 mebibytes", 2 << 20),
        ("1 gb", 1 << 30), ("3 g", 3 << 30), ("1 tb", 1 << 40), (" 7  mb ", 7 << 20),
        ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0), ("10", 10), ("10 ms", 10), ("10ms", 10), ("3 s", 3000), ("3sec", 3000), ("1 min", 60_000),
        ("2 m", 120_000), ("1 h", 3_600_000), ("1 hour", 3_600_000), ("2 d", 172_800_000), ("1 day", 86_400_000),
        ("5000 us", 5), ("1500 µs", 1), ("1000000 ns", 1), ("999 micros", 0), ("1 SECOND", 1000),
    ],
)  # fmt: skip
def test_durations(text: str, millis: int) -> None:
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize("text", ["", "mb", "-1 mb", "1.5 mb", "1 xb", "1 mb x", "9" * 30, "9" * 18 + " tb", "1٣"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(OptionError, match=r"target-file-size must be a size such as 128 mb"):
        parse_memory(text, "target-file-size")


@pytest.mark.parametrize("text", ["", "ms", "-1 s", "1.5 s", "1 week", "1 h x", "9" * 30, "9223372036854775807 d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(OptionError, match=r"commit\.timeout must be a duration such as 1 h"):
        parse_duration_ms(text, "commit.timeout")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.STRING, " as it is ", " as it is "),
        (Kind.BOOLEAN, "TRUE", True),
        (Kind.BOOLEAN, " false ", False),
        (Kind.INT, " 12 ", 12),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.DOUBLE, "0.1", 0.1),
        (Kind.MEMORY, "1 kb", 1024),
        (Kind.DURATION, "1 s", 1000),
        (Kind.ENUM, "Partial_Update", "partial-update"),
        (Kind.MAP, "0:avro, 3 : parquet", {"0": "avro", "3": "parquet"}),
        (Kind.MAP, "", {}),
        (Kind.LIST, "a, b,,c", ("a", "b", "c")),
    ],
)
def test_values_by_kind(kind: Kind, text: str, value: object) -> None:
    assert parse_value("k", kind, text, ("deduplicate", "partial-update")) == value


@pytest.mark.parametrize(
    ("kind", "text", "allowed"),
    [
        (Kind.BOOLEAN, "yes", "true or false"),
        (Kind.INT, "2147483648", "whole number"),
        (Kind.INT, "1.0", "whole number"),
        (Kind.INT, "", "whole number"),
        (Kind.LONG, "9" * 5000, "whole number"),
        (Kind.DOUBLE, "x", "a number"),
        (Kind.ENUM, "merge", "one of deduplicate, partial-update"),
        (Kind.MAP, "avro", "pairs"),
        (Kind.MAP, "0:", "pairs"),
        (Kind.MAP, "0:a:b", "pairs"),
    ],
)
def test_errors_name_the_key_and_what_is_allowed(kind: Kind, text: str, allowed: str) -> None:
    with pytest.raises(OptionError, match=f"option some.key must be .*{allowed}"):
        parse_value("some.key", kind, text, ("deduplicate", "partial-update"))


@given(st.text(), st.sampled_from(list(Kind)))
def test_any_text_gives_a_value_or_an_option_error(text: str, kind: Kind) -> None:
    try:
        value = parse_value("k", kind, text, ("a", "b"))
    except OptionError:
        return
    assert value is not None


_NO_NUMBERS = ["1_0", "\u0661", "\uff11", "\u00b2", "\u20031", "1\u00a0", "0x1", "--1", "1 0", "+", "", "None"]
_NUMBERS = [
    "1_0",
    "\u0661",
    "\uff11",
    "\u00b2",
    "\u20031",
    "1\u00a0",
    "\u00a01",
    "0x1",
    "--1",
    "1 0",
    "+",
    "",
    "None",
]
_NUMBERS = [o for o in OPTIONS.values() if o.kind in (Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.MEMORY, Kind.DURATION)]


@pytest.mark.parametrize("option", _NUMBERS, ids=lambda option: option.key)
def test_only_ascii_digits_are_numbers(option: Option) -> None:
    """Python's int() and float() take what no other reader of the table takes for a number."""
    assert option.parse(" 1 ") == 1
    for text in _NO_NUMBERS:
        with pytest.raises(OptionError, match=f"option {re.escape(option.key)} must be "):
            option.parse(text)
        with pytest.raises(OptionError):
            option.stored(text)
