"""Aggregate functions on texts, lists, maps and lists of rows, one row after the other.

Values are what Arrow's ``to_pylist`` gives: a map is a list of pairs, a row a dict. Results of functions that keep no
order are compared by `unordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Value = Any


def same(a: Value, b: Value) -> bool:
    """Equality that tells -0.0 from 0.0 and finds NaN again; maps by their entries, in any order."""
    return key_of(a) == key_of(b)


def key_of(value: Value) -> Value:
    if isinstance(value, dict):
        return ("row", *sorted((name, key_of(item)) for name, item in value.items()))
    if isinstance(value, list):
        parts = [key_of(item) for item in value]
        return ("map", *sorted(parts, key=repr)) if value and isinstance(value[0], tuple) else ("list", *parts)
    if isinstance(value, tuple):
        return tuple(key_of(item) for item in value)
    return repr(value)


def unordered(value: Value) -> Value:
    """A list or map whose elements have no order."""
    return None if value is None else sorted(map(key_of, value), key=repr)


class NestedModel:
    """One function with its options: distinct, delimiter, key, limit, time, sequence, null_keys; and ``rules``, the
    version of Java."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, options
        self.newer = options.get("rules") == "2.1" or "sequence" in options or "null_keys" in options

    def fold(self, rows: Sequence[tuple[Value, bool]]) -> Value:
        accumulator = None
        for value, retract in rows:
            step: Callable[[Value, Value], Value] = getattr(self, ("take_back_" if retract else "") + self.name)
            accumulator = step(accumulator, value)
        return accumulator

    def listagg(self, accumulator: Value, value: Value) -> Value:
        if self.newer:
            return accumulator if _is_blank(value) else self._joined(accumulator, value)
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        if not value or not accumulator:
            return accumulator or value
        return self._joined(accumulator, value)

    def _joined(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None:
            return value
        delimiter = self.options.get("delimiter", ",")
        if not self.options.get("distinct"):
            return accumulator + delimiter + value
        known = accumulator.split(delimiter or " ")
        for part in value.split(delimiter or " "):
            if part and not (self.newer and _is_blank(part)) and part not in known:
                known.append(part)
                accumulator += delimiter + part
        return accumulator

    def collect(self, accumulator: Value, value: Value) -> Value:
        if value is None:
            return accumulator
        found = list(accumulator or [])
        for element in value:
            if not self.options.get("distinct") or not any(same(element, other) for other in found):
                found.append(element)
        return found

    def take_back_collect(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return accumulator
        found = list(accumulator)
        for element in value:
            for place, other in enumerate(found):
                if same(element, other):
                    del found[place]
                    break
        return found

    def merge_map(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return list({key_of(key): (key, item) for key, item in [*accumulator, *value]}.values())

    def take_back_merge_map(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return accumulator
        gone = {key_of(key) for key, _ in value}
        return [(key, item) for key, item in accumulator if key_of(key) not in gone]

    def merge_map_with_keytime(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        time = self.options["time"]
        found = dict(accumulator)
        for key, row in value:
            if row is None:
                found.pop(key, None)
            elif row[time] is not None:
                old = found.get(key)
                if old is None or old[time] is None or _utf16(row[time]) > _utf16(old[time]):
                    found[key] = row
        return list(found.items())

    def _key(self, row: Value) -> Value:
        return key_of([row[name] for name in self.options["key"]])

    def _by_key(self, rows: Sequence[Value]) -> list[Value]:
        present = [row for row in rows if row is not None]
        return list({self._key(row): row for row in present}.values()) if self.options.get("key") else present

    def _nested_update_of_21(self, accumulator: Value, value: Value) -> Value:
        if value is None:
            return accumulator
        limit, found = self.options.get("limit", 10**9), dict[Any, Any]()
        for limited, rows in ((False, accumulator or []), (True, value)):
            for row in rows:
                if row is None or self._is_ignored(row):
                    continue
                key = self._key(row) if self.options.get("key") else len(found)
                if key in found:
                    if self._sequence(row) >= self._sequence(found[key]):
                        found[key] = row
                elif not limited or len(found) < limit:
                    found[key] = row
        return list(found.values())

    def _sequence(self, row: Value) -> list[tuple[bool, Any]]:
        """The row's place among those with its key: NULL is least."""
        values = [row[name] for name in self.options.get("sequence", ())]
        return [(value is not None, 0 if value is None else value) for value in values]

    def _is_ignored(self, row: Value) -> bool:
        return self.options.get("null_keys") == "ignore" and any(row[name] is None for name in self.options["key"])

    def nested_update(self, accumulator: Value, value: Value) -> Value:
        if self.newer:
            return self._nested_update_of_21(accumulator, value)
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        room = self.options.get("limit", 10**9) - len(accumulator)
        if room <= 0:
            return accumulator
        return self._by_key([*accumulator, *[row for row in value if row is not None][:room]])

    def take_back_nested_update(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return accumulator
        told = self._key if self.options.get("key") else key_of
        gone = [told(row) for row in value if row is not None and not self._is_ignored(row)]
        return [row for row in self._by_key(accumulator) if told(row) not in gone]

    def nested_partial_update(self, accumulator: Value, value: Value) -> Value:
        if self.newer and value is not None:
            accumulator = accumulator or []
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        found: dict[Any, dict[str, Any]] = {}
        for row in [*accumulator, *value]:
            if row is not None and not self._is_ignored(row):
                merged = found.setdefault(self._key(row), dict.fromkeys(row))
                merged.update({name: item for name, item in row.items() if item is not None})
        return list(found.values())


def _is_blank(text: str | None) -> bool:
    """As Java has it: spaces that don't break are none."""
    return text is None or all(c.isspace() and c not in "\u0085\u00a0\u2007\u202f" for c in text)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")
