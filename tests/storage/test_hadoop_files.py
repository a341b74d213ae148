"""Files of Hadoop's form: what wins, what they include, and the bounds of what is read. Clusters read the same files in
tests/storage/test_hdfs.py and tests/catalog/test_hive.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_pyds.errors import OptionError
from paimon_pyds.storage.hadoop_files import LARGEST, properties_of, substituted


def _site(path: Path, inner: str, head: str = "", encoding: str = "utf-8") -> Path:
    text = f'{head}<configuration xmlns:xi="http://www.w3.org/2001/XInclude">{inner}</configuration>'
    path.write_text(text, encoding)
    return path


def _property(name: str, value: str, more: str = "") -> str:
    return f"<property><name> {name} </name><value>\n{value} </value>{more}</property>"


def test_later_files_win_over_what_is_not_final(tmp_path: Path) -> None:
    _site(tmp_path / "more.xml", _property("c", "of more"))
    first = _site(
        tmp_path / "a.xml",
        _property("a", "1")
        + _property("b", "1", "<final>true</final>")
        + '<xi:include href="more.xml"/><xi:include href="none.xml"/>'
        + '<configuration><property name="d" value="in an attribute"/></configuration>'
        + "<property><name>e</name></property>",
    )
    second = _site(tmp_path / "b.xml", _property("a", "2") + _property("b", "2"), encoding="utf-16")
    found = properties_of([first, tmp_path / "none", first / "below", second])
    assert found == {"a": "2", "b": "1", "c": "of more", "d": "in an attribute"}


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "x")
    monkeypatch.setenv("EMPTY", "")
    found = {"a": "${b}/1", "b": "${env.SET}", "loop": "${loop2}", "loop2": "${loop}"}
    assert substituted("${a} ${env.EMPTY:-other} ${env.EMPTY-other} ${none}", found) == "x/1 other  ${none}"
    assert substituted("${loop}", found) in ("${loop}", "${loop2}")


_BOMB = '<!DOCTYPE configuration [<!ENTITY a "hush">]>'


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: _site(p, _property("a", "&a;"), _BOMB), "not a configuration of Hadoop"),
        (lambda p: _site(p, _property("a", "hush"), _BOMB, "utf-16"), "not a configuration of Hadoop"),
        (lambda p: _site(p, _property("a", "&hush;")), "not a configuration of Hadoop"),
        (lambda p: p.write_text("<configuration>hush"), "not a configuration of Hadoop"),
        (lambda p: _site(p, "hush" + " " * LARGEST), "larger than 8 MiB"),
        (lambda p: _site(p, '<xi:include href="site.xml"/>' * 2), "more than 100 files"),
        (lambda p: p.mkdir(), "can't be read"),
    ],
    ids=["entity", "entity in UTF-16", "unknown entity", "broken", "large", "includes", "directory"],
)
def test_bounds(tmp_path: Path, write: object, message: str) -> None:
    write(tmp_path / "site.xml")  # type: ignore[operator]
    with pytest.raises(OptionError, match=message) as caught:
        properties_of([tmp_path / "site.xml"])
    assert "hush" not in str(caught.value)


def test_a_file_that_includes_itself_is_read_as_deep_as_hadoop_does(tmp_path: Path) -> None:
    site = _site(tmp_path / "site.xml", _property("a", "1") + '<xi:include href="site.xml"/>')
    assert properties_of([site]) == {"a": "1"}


def test_variables_that_grow() -> None:
    found = {"a": "${b}" * 10, "b": "${c}" * 10, "c": "x" * 100_000}
    with pytest.raises(OptionError, match="longer than 8 MiB"):
        substituted("${a}", found)
