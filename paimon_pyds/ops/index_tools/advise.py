"""Which indexes recorded filters call for, and which configured ones waste space.

The rules, after what each index answers (Paimon documentation, concepts/spec/fileindex) and what it costs here:

* A condition counts only where an index can narrow the filter down: of an OR when every branch can be answered.
  <>, NOT IN, contains and patterns that begin with a wildcard narrow nothing down.
* Partition columns need none. Filters that keep more than half of the rows gain nothing. Where the statistics of a
  Parquet file's pages leave hardly more pages than hold a match, as on a sorted column, an index adds nothing.
* Ranges, BETWEEN and prefixes call for a range bitmap, which answers = too.
* = and IN call for a bitmap where a value has ten rows or more in a file: it names the rows at a few bytes a row. With
  fewer rows per value its dictionary outgrows the column; a bloom filter of five bits per value then skips files, if
  few of them have the wanted values; else a range bitmap names the rows.
* A configured index goes when no recorded filter needs it, or when another one on the column answers the same; a bloom
  filter made for more than four times the values that a file has is made smaller.
* An index to have that takes more than twice the data's bytes is noted: that is for its owner to weigh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.progress import counted as counted_items
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes
from paimon_pyds.base.text import Summary, plain
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.execution.live_files import file_specs, live_in, planned_live_files
from paimon_pyds.format import traits_of
from paimon_pyds.index.build import IndexSpec, bloom_size, parse_index_specs
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, supports
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.index_tools.cost import build_one, read_sample, sample_files
from paimon_pyds.ops.index_tools.recorded_filters import (
    NULLS,
    POINT,
    RANGE,
    Need,
    RecordedFilter,
    bound_filters,
    counted_filters,
    needed_indexes,
    useful_parts,
)
from paimon_pyds.sql.predicate.tree import Predicate

_ANSWERS = {
    BITMAP: frozenset({POINT, NULLS}),
    RANGE_BITMAP: frozenset({POINT, RANGE, NULLS}),
    BSI: frozenset({POINT, RANGE, NULLS}),
    BLOOM_FILTER: frozenset({POINT}),
}
_EXACT = (BITMAP, RANGE_BITMAP, BSI)
_TOO_MUCH_SHARE = 0.5
_STATISTICS_DO_FACTOR = 1.5
_STATISTICS_LEAVE_SHARE = 0.5
_FILES_WITH_VALUE = 0.5
_OVERSIZED_FACTOR = 4
_DWARFS_FACTOR = 2
_SMALL_BLOOM_BITS = 64 << 10
_MOST_CONDITIONS = 500
"""Conditions that are measured, over all columns."""
_ROWS = 1_000_000
"""Rows of each sampled file that are looked at."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with one index: ``add``, ``keep``, ``change`` or ``drop``; ``none`` for a column that needs none.

    ``uses``: how many recorded filters have a use for the column. ``bytes``: the index over the whole table, projected
    from a sampled file. ``options``: the index's own options to set.
    """

    action: str
    column: str
    index_type: str | None
    reason: str
    uses: int = 0
    bytes: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class AdviceReport(Summary):
    """All advice, the most used columns first; ``set_options`` and ``unset_options`` are what `Table.alter` takes."""

    files: int
    sampled_files: int
    filters: int
    advice: tuple[Advice, ...]
    set_options: Mapping[str, str]
    unset_options: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        sampled = f"{self.sampled_files} of {counted(self.files, 'file')} sampled"
        advice = (f"{a.action}{f' {a.index_type}' if a.index_type else ''} on {a.column}" for a in self.advice)
        return plain(counted(self.filters, "recorded filter"), sampled, *advice)


def index_advise(
    store: TableStore, recorded: Sequence[RecordedFilter | str], *, files: int = 3, where: str | Predicate | None = None
) -> AdviceReport:
    """Advice on indexes from recorded filters.

    ``recorded``: the filters, with how often they were used; those that don't fit the table any more are named in the
    notes. ``files``: how many files to sample. ``where``: a condition on partition columns that files are taken from.
    Raises OptionError: a ``where`` on other columns, or the table's options of indexes are wrong.
    """
    return _Advisor(store, files, where).run(counted_filters(recorded))


class _Advisor:
    def __init__(self, store: TableStore, files: int, where: str | Predicate | None) -> None:
        self.store = store
        self.schema = store.latest_schema()
        self.specs = parse_index_specs(self.schema.options, self.schema.fields)
        entries = live_in(store, self.schema, store.latest_snapshot(), where, "index advise")
        self.read, self.live = planned_live_files(store, self.schema, entries)
        self.chosen = sample_files(self.live, files)
        self.page_statistics = traits_of(TableOptions(self.schema.options).get("file.format")).has_page_statistics
        self.notes: list[str] = []

    def run(self, recorded: Sequence[RecordedFilter]) -> AdviceReport:
        bound, notes = bound_filters(recorded, self.schema.fields)
        self.notes += notes
        useless = (text for text, (predicate, _) in bound.items() if not useful_parts(predicate))
        self.notes += [f"{text}: no index can narrow it down" for text in useless]
        by_column = needed_indexes(bound)
        names = {need.column.name for need in by_column.values()}
        ids = {f.id for f in self.schema.fields if f.name in names}
        for file in counted_items(self.chosen, "sampling", files=len(self.chosen)):
            sample = read_sample(self.read, file, {f.name for f in self.read.fields_of(file) if f.id in ids}, _ROWS)
            for need in by_column.values():
                need.look(sample, self.schema.fields, max(1, _MOST_CONDITIONS // len(by_column)))
        advice = [a for need in sorted(by_column.values(), key=lambda n: -n.uses) for a in self.of(need)]
        advice += [
            Advice("drop", spec.container_name, spec.index_type, "no recorded filter uses it")
            for spec in self.specs
            if spec.container_name not in by_column
        ]
        advice = self.sized(advice)
        self.weigh(advice)
        wanted, unwanted = self.options(advice)
        return AdviceReport(
            files=len(self.live),
            sampled_files=len(self.chosen),
            filters=sum(item.count for item in recorded),
            advice=tuple(advice),
            set_options=wanted,
            unset_options=unwanted,
            notes=tuple(self.notes),
        )

    def of(self, need: Need) -> Iterator[Advice]:
        """Advice for one column: what to have, and what to drop."""
        configured = {s.index_type: s for s in self.specs if s.container_name == need.name}
        choice, reason = self.choose(need)
        if choice is None:
            if not configured:
                yield Advice("none", need.name, None, reason, need.uses)
            # What no sampled file can speak against stays: a table is configured before it is written.
            action = "drop" if need.per_file or need.column.name in self.schema.partition_keys else "keep"
            yield from (Advice(action, need.name, index_type, reason, need.uses) for index_type in configured)
            return
        if choice not in configured:
            there = [t for t in _EXACT if t in configured and need.kinds <= _ANSWERS[t]]
            if there:
                choice, reason = there[0], f"it exists and answers the recorded filters: {_operators(need)}"
        for index_type, spec in configured.items():
            if index_type == choice:
                yield self.kept(need, spec, reason)
            else:
                yield Advice("drop", need.name, index_type, f"{choice} answers {_operators(need)} too", need.uses)
        if choice not in configured:
            yield Advice("add", need.name, choice, reason, need.uses, options=_own_options(need, choice))

    def choose(self, need: Need) -> tuple[str | None, str]:
        """The index that suits a column, and why; None, and why no index suits."""
        if need.column.name in self.schema.partition_keys:
            return None, "it is a partition column: files are left out by partition already"
        if not need.per_file:
            what = "the sampled files do not have this column" if self.chosen else "there is no file to look at yet"
            return None, what
        if need.share("rows") > _TOO_MUCH_SHARE:
            return None, f"its filters keep {need.share('rows'):.0%} of the rows"
        left, hold = need.share("statistics"), need.share("pages")
        if self.page_statistics and left <= _STATISTICS_LEAVE_SHARE and left <= _STATISTICS_DO_FACTOR * hold + 0.01:
            return None, f"statistics leave {left:.1%} of the pages already, and {hold:.1%} hold a match"
        values = f"{need.distinct:,} values in {need.rows:,} rows of a file"
        if RANGE in need.kinds:
            return _first(need, (RANGE_BITMAP, BSI), f"filters have ranges; {values}")
        if need.few_values:
            return _first(need, (BITMAP, RANGE_BITMAP, BLOOM_FILTER), f"a bitmap names the rows; {values}")
        if POINT in need.kinds and need.share("files") <= _FILES_WITH_VALUE:
            with_value = f"the wanted values are in {need.share('files'):.0%} of the files"
            return _first(need, (BLOOM_FILTER, RANGE_BITMAP), f"{with_value}, the others are skipped; {values}")
        return _first(need, (RANGE_BITMAP, BITMAP, BLOOM_FILTER), f"most files have the wanted values; {values}")

    @staticmethod
    def kept(need: Need, spec: IndexSpec, reason: str) -> Advice:
        """Keep an index as it is, or a bloom filter that is far too large with fewer items."""
        if spec.index_type == BLOOM_FILTER:
            items, fpp = spec.bloom()
            fitting = _items(need)
            if items > _OVERSIZED_FACTOR * fitting and bloom_size(items, fpp)[0] > _SMALL_BLOOM_BITS:
                why = f"it is made for {items:,} values, a file has {need.distinct:,} at most"
                return Advice("change", need.name, BLOOM_FILTER, why, need.uses, options=_own_options(need))
        return Advice("keep", need.name, spec.index_type, reason, need.uses)

    def sized(self, advice: Sequence[Advice]) -> list[Advice]:
        """The same with sizes: each index is built on the largest sampled file."""
        if not self.chosen:
            return list(advice)
        file = max(self.chosen, key=lambda f: f.row_count)
        fields = {f.name: f for f in self.schema.fields}
        rows = sum(f.row_count for f in self.live)
        found = []
        for item in advice:
            spec = self.spec(item, fields)
            own = () if spec is None else file_specs([spec], self.schema.fields, self.read.fields_of(file))
            size = 0
            if own:
                sample = read_sample(self.read, file, {own[0].column}, _ROWS)
                body = len(build_one(sample, own[0]) or b"")
                size = body * len(self.live) if own[0].index_type == BLOOM_FILTER else body * rows // sample.rows
            found.append(replace(item, bytes=size))
        return found

    def weigh(self, advice: Sequence[Advice]) -> None:
        """Note the indexes to have that dwarf the data: wide values that hardly repeat make them so."""
        data = sum(f.size for f in self.live)
        for item in advice:
            if item.action != "drop" and item.bytes > _DWARFS_FACTOR * data:
                size, all_ = human_bytes(item.bytes), human_bytes(data)
                self.notes.append(
                    f"{item.index_type} of {item.column}: its {size} are more than {_DWARFS_FACTOR} times the {all_} "
                    "of all data files; weigh them against what `index cost` says it leaves"
                )

    def spec(self, item: Advice, fields: Mapping[str, DataField]) -> IndexSpec | None:
        """The index that an advice is about, as it is to be, or as it is when it goes."""
        if item.index_type is None:
            return None
        if not item.options:
            for spec in self.specs:
                if (spec.container_name, spec.index_type) == (item.column, item.index_type):
                    return spec
        name, _, key = (item.column, "", "") if item.column in fields else item.column.partition("[")
        own = {k.rpartition(".")[2]: v for k, v in item.options.items()}
        return IndexSpec(name, key[:-1] if key else None, item.index_type, own)

    def options(self, advice: Sequence[Advice]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Options to set, and to unset, for the advice to come true: only what changes."""
        now = self.schema.options
        wanted: dict[str, list[str]] = {}
        setting: dict[str, str] = {}
        for item in advice:
            if item.index_type is not None and item.action in ("add", "keep", "change"):
                wanted.setdefault(f"file-index.{item.index_type}.columns", []).append(item.column)
                setting.update(item.options)
        for key, columns in wanted.items():
            if sorted(part.strip() for part in now.get(key, "").split(",")) != sorted(columns):
                setting[key] = ",".join(columns)
        unset = tuple(key for key in now if _is_left_over(key, wanted))
        return {k: v for k, v in setting.items() if now.get(k) != v}, unset


def _is_left_over(key: str, wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether an option is of indexes that are not wanted: a list of columns, or an index's own option."""
    _, _, rest = key.partition("file-index.")
    index_type, _, rest = rest.partition(".")
    if not key.startswith("file-index.") or index_type not in _ANSWERS:
        return False
    columns = wanted.get(f"file-index.{index_type}.columns", ())
    if rest == "columns":
        return not columns
    names = {name.lower() for column in columns for name in (column, column.partition("[")[0])}
    return rest.rpartition(".")[0].lower() not in names


def _first(need: Need, types: Sequence[str], reason: str) -> tuple[str | None, str]:
    """The first of these types that the column's type allows and that answers some of the filters."""
    for index_type in types:
        if supports(index_type, need.type) and need.kinds & _ANSWERS[index_type]:
            return index_type, reason
    return None, f"no index on {need.type} answers {_operators(need)}"


def _operators(need: Need) -> str:
    names = {POINT: "=", RANGE: "ranges", NULLS: "IS NULL"}
    return " and ".join(text for kind, text in names.items() if kind in need.kinds)


def _items(need: Need) -> int:
    """Values to make a bloom filter for: a fifth more than the fullest sampled file has, to two digits."""
    wanted = max(100, need.distinct * 6 // 5)
    step = int(f"1{'0' * (len(str(wanted)) - 2)}")
    return -(-wanted // step) * step


def _own_options(need: Need, index_type: str = BLOOM_FILTER) -> dict[str, str]:
    return {f"file-index.{BLOOM_FILTER}.{need.name}.items": str(_items(need))} if index_type == BLOOM_FILTER else {}
