from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.catalog import Identifier, parse_identifier
from paimon_pyds.errors import OptionError


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t", ("default", "t")),
        (" db.t ", ("db", "t")),
        ("db.t.x", ("db", "t.x")),
        ("db.t$branch_b", ("db", "t", "b")),
        ("db.t$branch_v1.2", ("db", "t", "v1.2")),
        ("db.t$branch_main", ("db", "t")),
        ("db.t$files", ("db", "t", None, "files")),
        ("db.t$branch_b$files", ("db", "t", "b", "files")),
        ("`db`.`t`", ("db", "t")),
        ("`d.b`.t", ("d.b", "t")),
        ("db.`t.x`$branch_b", ("db", "t.x", "b")),
        ("`t$branch_b`", ("default", "t", "b")),
        ("`a``b`", ("default", "a`b")),
        ("é中.☃", ("é中", "☃")),
    ],
)
def test_names(name: str, parts: tuple[str, ...]) -> None:
    assert parse_identifier(name) == Identifier(*parts)


@pytest.mark.parametrize(
    "name",
    ["", "  ", ".", ".t", "db.", "db.t$", "db.t$branch_", "db.t$a$b", "db.t$branch_b$a$c", "$files", "`t", "t`", "``",
     "`a`b", "`a`.`b`.`c`", "a/b", "a.b/c", "..", "a...", "a.\0"],
)  # fmt: skip
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(OptionError, match="not a"):
        parse_identifier(name)


def test_another_default_database() -> None:
    assert parse_identifier("t", "shop") == Identifier("shop", "t")
    assert str(Identifier("db", "t", "b", "files")) == "db.t$branch_b$files"


@given(st.text(max_size=20))
def test_any_text_is_a_name_or_an_option_error(text: str) -> None:
    try:
        identifier = parse_identifier(text)
    except OptionError:
        return
    for part in (identifier.database, identifier.table):
        assert part.strip() and "/" not in part and part not in (".", "..")
