"""Which sorted runs of a bucket a compaction merges, and what it does with each of their files: Java's strategy.

Every file of level 0 is a sorted run, and so is every level above with all its files. Runs are merged from the newest
one on, so that what comes out is older than all that stays above it, and newer than all that stays below.

Source: Paimon documentation, primary-key-table/compaction; Java: classes UniversalCompaction, EarlyFullCompaction,
ForceUpLevel0Compaction, CompactStrategy, Levels and MergeTreeCompactTask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.keys.merge.files_to_merge import highest_level
from paimon_pyds.keys.merge.older_versions import OlderVersions

_TRIGGER = "num-sorted-run.compaction-trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFile:
    """A live data file of a bucket.

    Attributes:
        at: its place among the entries.
        size: bytes.
        level: 0 for files as writers leave them.
        key_range: numbers that compare as the least and the greatest keys of all files of the bucket do.
        age: what orders files of level 0, the newest first (`sorted_runs`).
        rows: how many it has.
        created: milliseconds.
        has_deletes: some of its rows delete others, or may.
        loses_rows: some of its rows are deleted by a deletion vector, or have expired.
        deleted: how many a deletion vector deletes, as far as that is known.
    """

    at: int
    size: int
    level: int
    key_range: tuple[int, int]
    age: tuple[int, int, int, str] = (0, 0, 0, "")
    rows: int = 0
    created: int = 0
    has_deletes: bool = False
    loses_rows: bool = False
    deleted: int = 0


Run = tuple[LevelFile, ...]
"""The files of a sorted run; of one level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalRules:
    """When runs are merged; sizes in bytes.

    Attributes:
        trigger: runs that make a compaction worthwhile (``num-sorted-run.compaction-trigger``).
        highest_level: by ``num-levels``; files on higher levels raise it.
        size_amplification: percent of the oldest run that the others may have
            (``compaction.max-size-amplification-percent``).
        size_ratio: percent that a run may be larger than those before it (``compaction.size-ratio``, and
            ``compaction.offpeak-ratio`` at that time of the day).
        small_size: size below which a file is rewritten although no other has its keys
            (``compaction.small-file-ratio`` of ``target-file-size``).
        lift_level_0: leave no file on level 0 (``compaction.force-up-level-0``; where older versions are looked up).
        rewrite_lifted: a file is rewritten when it leaves level 0, except for the highest level: its rows may have to
            be merged with older ones.
        rewrite_deletes: so is one with rows that delete others.
        other_formats: levels whose files have another format than those of level 0, and don't take these as they are.
        vectors_hide: a deletion vector hides the older version of each row that leaves level 0, so that no row above
            has to delete others.
        full_interval: milliseconds after which all runs are merged again (``compaction.optimization-interval``).
        total_size: all runs are merged when they are smaller (``compaction.total-size-threshold``).
        incremental_size: and when those below the highest level are larger
            (``compaction.incremental-size-threshold``).
        rewrite_all: rewrite every file (``compaction.force-rewrite-all-files``).
    """

    small_size: int
    trigger: int = 5
    highest_level: int = 5
    size_amplification: int = 200
    size_ratio: int = 1
    lift_level_0: bool = False
    rewrite_lifted: bool = False
    rewrite_deletes: bool = False
    other_formats: frozenset[int] = frozenset()
    vectors_hide: bool = False
    full_interval: int | None = None
    total_size: int | None = None
    incremental_size: int | None = None
    rewrite_all: bool = False

    @classmethod
    def of(cls, options: TableOptions, target_size: int, hour: int) -> UniversalRules:
        """By a table's options.

        ``options``: those of the table and of the call. ``target_size``: of its files, in bytes. ``hour``: of the day,
        0 to 23, where the writer is.
        """
        older = OlderVersions.of(options)
        return cls(
            small_size=int(target_size * float(options.get("compaction.small-file-ratio"))),
            trigger=int(options.get(_TRIGGER)),
            highest_level=highest_level(options),
            size_amplification=int(options.get("compaction.max-size-amplification-percent")),
            size_ratio=int(options.get("compaction.size-ratio")) + _offpeak_ratio(options, hour),
            lift_level_0=bool(
                options.get("pk-clustering-override")
                or (_lifts_by_look_up(options) if older.looked_up else options.get("compaction.force-up-level-0"))
            ),
            rewrite_lifted=older.change_lifted_rows,
            rewrite_deletes=older.change_lifted_deletes,
            other_formats=_other_formats(options) if older.looked_up else frozenset(),
            vectors_hide=older.hidden,
            full_interval=options.get("compaction.optimization-interval"),
            total_size=options.get("compaction.total-size-threshold"),
            incremental_size=options.get("compaction.incremental-size-threshold"),
            rewrite_all=bool(options.get("compaction.force-rewrite-all-files")),
        )


def _lifts_by_look_up(options: TableOptions) -> bool:
    """Whether a compaction leaves no file on level 0, in a table that looks older versions up.

    With ``lookup-compact=gentle`` Java does it in every n-th compaction of one writer; each of ours is the first one.
    """
    trigger, interval = (options.get(key) for key in (_TRIGGER, "lookup-compact.max-interval"))
    longest = max(trigger, 2 * trigger if interval is None else interval)
    return bool(options.get("lookup-compact") == "radical" or longest == 1)


def _other_formats(options: TableOptions) -> frozenset[int]:
    formats, default = options.get("file.format.per.level"), options.get("file.format")
    lowest = formats.get("0", default)
    levels = range(1, highest_level(options) + 1)
    return frozenset(level for level in levels if formats.get(str(level), default) != lowest)


def _offpeak_ratio(options: TableOptions, hour: int) -> int:
    start, end = (int(options.get(f"compaction.offpeak.{name}.hour")) for name in ("start", "end"))
    if -1 in (start, end) or start == end:
        return 0
    within = start <= hour < end if start < end else hour < end or start <= hour
    return int(options.get("compaction.offpeak-ratio")) if within else 0


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """Runs that are merged, the newest first.

    Attributes:
        runs: all of their files.
        output_level: level of the result, above 0.
        one_by_one: each file is rewritten by itself.
    """

    runs: tuple[Run, ...]
    output_level: int
    one_by_one: bool = False

    @property
    def files(self) -> list[LevelFile]:
        """The files of all runs."""
        return [file for run in self.runs for file in run]


def sorted_runs(files: Sequence[LevelFile]) -> list[Run]:
    """The runs of a bucket, the newest first."""
    newest = sorted((file for file in files if not file.level), key=lambda file: file.age)
    above: dict[int, list[LevelFile]] = {}
    for file in files:
        if file.level:
            above.setdefault(file.level, []).append(file)
    levels = [tuple(sorted(above[level], key=lambda file: file.key_range)) for level in sorted(above)]
    return [*((file,) for file in newest), *levels]


def pick(runs: Sequence[Run], rules: UniversalRules, now: int) -> CompactUnit | None:
    """The runs to merge, by how many there are and how large. ``runs``: of one bucket, the newest first. ``now``:
    milliseconds."""
    unit = _pick(runs, rules, now)
    if unit is None and rules.lift_level_0:
        fresh = sum(not _level(run) for run in runs)
        unit = _by_size_ratio(runs, rules, fresh, forced=True) if fresh else None
    if unit is None or (len(unit.files) == 1 and unit.files[0].level == unit.output_level):
        return None
    return unit


def pick_full(runs: Sequence[Run], rules: UniversalRules) -> CompactUnit | None:
    """All runs; of a bucket that is compacted to the highest level, the files with deletion vectors."""
    if not runs:
        return None
    highest = _highest(runs, rules)
    if len(runs) > 1 or _level(runs[0]) != highest:
        return CompactUnit(tuple(runs), highest)
    again = tuple(file for file in runs[0] if rules.rewrite_all or file.loses_rows)
    return CompactUnit((again,), highest, one_by_one=True) if again else None


def _level(run: Run) -> int:
    return run[0].level


def _size(runs: Sequence[Run]) -> int:
    return sum(file.size for run in runs for file in run)


def _highest(runs: Sequence[Run], rules: UniversalRules) -> int:
    """The highest level of the bucket, with or without files."""
    return max(rules.highest_level, *(_level(run) for run in runs), 1)


def _pick(runs: Sequence[Run], rules: UniversalRules, now: int) -> CompactUnit | None:
    if not runs:
        return None
    if _full_is_due(runs, rules, now):
        return CompactUnit(tuple(runs), _highest(runs, rules))
    if len(runs) < rules.trigger:
        return None
    if _size(runs[:-1]) * 100 > rules.size_amplification * _size(runs[-1:]):
        return CompactUnit(tuple(runs), _highest(runs, rules))
    unit = _by_size_ratio(runs, rules, 1)
    if unit is None and len(runs) > rules.trigger:
        unit = _by_size_ratio(runs, rules, len(runs) - rules.trigger + 1)
    return unit


def _full_is_due(runs: Sequence[Run], rules: UniversalRules, now: int) -> bool:
    """Whether all runs are merged whatever their number and sizes."""
    if len(runs) == 1:
        return False
    highest = _highest(runs, rules)
    if rules.full_interval is not None:
        last = max((file.created for run in runs for file in run if file.level == highest), default=None)
        if last is None or now - last > rules.full_interval:
            return True
    if rules.total_size is not None and _size(runs) < rules.total_size:
        return True
    below = _size([run for run in runs if _level(run) != highest])
    return rules.incremental_size is not None and below > rules.incremental_size


def _by_size_ratio(
    runs: Sequence[Run], rules: UniversalRules, count: int, *, forced: bool = False
) -> CompactUnit | None:
    """The first ``count`` runs, and those after them that are not much larger than all before."""
    size = _size(runs[:count])
    picked = count
    for run in runs[count:]:
        if size * (100.0 + rules.size_ratio) / 100.0 < _size([run]):
            break
        size += _size([run])
        picked += 1
    return _unit(runs, rules, picked) if forced or picked > 1 else None


def _unit(runs: Sequence[Run], rules: UniversalRules, count: int) -> CompactUnit:
    """The first ``count`` runs, and more if the result would be on level 0 otherwise."""
    level = max(0, _level(runs[count]) - 1) if count < len(runs) else 0
    while level == 0 and count < len(runs):
        level = _level(runs[count])
        count += 1
    return CompactUnit(tuple(runs[:count]), _highest(runs, rules) if count == len(runs) else level)


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """How the files of a unit are rewritten.

    Attributes:
        output_level: level of the result.
        highest_level: of the bucket.
        drop_deletes: no row has an older version, so that rows that delete others are left out.
        rewrites: what is merged to one sorted run each: sections, in the order of their keys.
        upgrades: files that stay as they are and are given the output level.
        older: files of runs that are not merged, which may have older versions of rows of level 0.
    """

    output_level: int
    highest_level: int
    drop_deletes: bool
    rewrites: tuple[tuple[Run, ...], ...]
    upgrades: Run
    older: Run = ()

    @property
    def files(self) -> list[LevelFile]:
        """All files that go, or change their level: those to rewrite first."""
        return [*(file for rewrite in self.rewrites for section in rewrite for file in section), *self.upgrades]

    def rewriting_older(self, numbers: Collection[int]) -> RewritePlan:
        """The same where the older files of these numbers are written anew, each on its own level."""
        rewrites = (((file,),) for number, file in enumerate(self.older) if number in numbers)
        stay = tuple(file for number, file in enumerate(self.older) if number not in numbers)
        return replace(self, rewrites=(*self.rewrites, *rewrites), older=stay)


def steps_of(unit: CompactUnit, runs: Sequence[Run], rules: UniversalRules) -> RewritePlan:
    """Which files of a unit are rewritten. Large files whose keys no other has stay, unless rows of them go."""
    highest = _highest(runs, rules)
    level = unit.output_level

    def stays(section: Run) -> bool:
        file = section[0]
        goes = rules.rewrite_all or file.loses_rows or (level == highest and file.has_deletes)
        if not file.level:
            goes |= rules.rewrite_deletes and file.has_deletes
            goes |= level in rules.other_formats or (rules.rewrite_lifted and level < highest)
        return len(section) == 1 and not goes

    rewrites: list[tuple[Run, ...]] = []
    upgrades: list[LevelFile] = []
    if unit.one_by_one:
        rewrites = [((file,),) for file in unit.files]
    for group in () if unit.one_by_one else _groups(unit, rules):
        if len(group) == 1 and stays(group[0]):
            upgrades += [file for file in group[0] if file.level != level]
        else:
            rewrites.append(group)
    drop_deletes = rules.vectors_hide or level >= max(_level(run) for run in runs)
    return RewritePlan(level, highest, drop_deletes, tuple(rewrites), tuple(upgrades), _older(unit, runs))


def _older(unit: CompactUnit, runs: Sequence[Run]) -> Run:
    """The files of the remaining runs, all on higher levels, that may have keys of the compacted files of level 0."""
    fresh = [file.key_range for file in unit.files if not file.level]
    if not fresh:
        return ()
    least, greatest = min(low for low, _ in fresh), max(high for _, high in fresh)
    older = runs[len(unit.runs) :]
    return tuple(file for run in older for file in run if least <= file.key_range[1] and file.key_range[0] <= greatest)


def _groups(unit: CompactUnit, rules: UniversalRules) -> Iterator[tuple[Run, ...]]:
    """Sections that are rewritten together: a large file without others of its keys ends those before it."""
    group: list[Run] = []
    for section in key_sections(unit.files):
        if len(section) > 1 or section[0].size < rules.small_size:
            group.append(section)
            continue
        if group:
            yield tuple(group)
            group = []
        yield (section,)
    if group:
        yield tuple(group)


def key_sections(files: Sequence[LevelFile]) -> Iterator[Run]:
    """Files in the order of their keys, those together whose key ranges overlap."""
    section: list[LevelFile] = []
    reached = 0
    for file in sorted(files, key=lambda file: file.key_range):
        if section and file.key_range[0] > reached:
            yield tuple(section)
            section = []
        reached = max(reached, file.key_range[1]) if section else file.key_range[1]
        section.append(file)
    if section:
        yield tuple(section)
