"""Bound expressions: nodes that know their type and evaluate on a batch.

A node gives an array with a value per row, or a scalar where the value is the same for all. Nodes are plain data and
functions of modules, so that they pickle into tasks. What SQL evaluates for some rows only (the branches of a CASE,
the right side of AND) is evaluated on those rows only: ``CASE WHEN b <> 0 THEN a / b END`` never divides by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, is_true, one_array, pc, scalar, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import DataType, arrow_type
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.vectors import lists_of
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.coercion import Type
from paimon_pyds.sql.expression.nested import cast_value
from paimon_pyds.sql.expression.operands import Datum, Kernel, spread
from paimon_pyds.sql.text.tree import Lambda, Literal

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


def arrow_of(type_: Type) -> pa.DataType:
    """The Arrow type of values; null for NULL."""
    return pa.null() if type_ is None else arrow_type(type_)


@dataclass(frozen=True)
class Node:
    """Base of bound nodes."""

    type: Type

    def children(self) -> Sequence[Node]:
        """The nodes directly inside."""
        return ()

    @property
    def variables(self) -> Sequence[str]:
        """Names of columns that the node itself gives to the nodes inside."""
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        """The values for a batch's rows. Raises ExpressionError."""
        raise NotImplementedError


def columns(node: Node) -> Iterator[str]:
    """Names of the batch's columns that a node needs, some maybe twice."""
    if isinstance(node, Column):
        yield node.name
    for child in node.children():
        yield from (name for name in columns(child) if name not in node.variables)


def spread_on(node: Node, batch: pa.RecordBatch) -> pa.Array:
    """A node's value for each row of a batch."""
    return spread(node.evaluate(batch), batch.num_rows)


@dataclass(frozen=True)
class Column(Node):
    """A column of the batch; texts and bytes of any Arrow form become plain ones.

    ``char`` is the n of CHAR(n): in comparisons blanks at the end don't count, see `paimon_pyds.sql.predicate.compare`.
    """

    name: str
    char: int | None = None

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        at = batch.schema.get_field_index(self.name)
        if at < 0:
            raise ExpressionError(f"the expression needs column {self.name!r}, which was not read")
        found = one_array(batch.column(at))
        wanted = arrow_of(self.type)
        if pa.types.is_fixed_size_list(found.type):
            return lists_of(found, wanted)
        return found if found.type == wanted else found.cast(wanted)


@dataclass(frozen=True)
class Constant(Node):
    """One value for all rows. ``literal`` is what was written, while nothing has been done to it."""

    value: pa.Scalar
    literal: Literal | None = None

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        return self.value


@dataclass(frozen=True)
class Cast(Node):
    """A cast, as written or as operators need it. ``lenient`` ones give NULL for what does not fit."""

    child: Node
    zone: str
    lenient: bool = False

    def children(self) -> Sequence[Node]:
        return (self.child,)

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        return _by_array([self.child.evaluate(batch)], self._cast)

    def _cast(self, array: pa.Array) -> pa.Array:
        if self.child.type is None or self.type is None:
            return pa.nulls(len(array), arrow_of(self.type))
        return cast_value(array, self.child.type, self.type, self.zone, self.lenient)


@dataclass(frozen=True)
class Part(Node):
    """A field of a row, the value of a map's key, an element of an array (from 0). ``char`` as of `Column`."""

    child: Node
    key: Any
    char: int | None = None

    def children(self) -> Sequence[Node]:
        return (self.child,)

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        return _by_array([self.child.evaluate(batch)], self._part)

    def _part(self, array: pa.Array) -> pa.Array:
        if pa.types.is_struct(array.type):
            return pc.struct_field(array, self.key)
        if pa.types.is_map(array.type):
            return pc.map_lookup(array, scalar(self.key, array.type.key_type), "first")
        lengths = pc.list_value_length(array)
        outside = pc.any(pc.less_equal(lengths, self.key)).as_py() or self.key < 0
        if outside and array.null_count < len(array):
            raise ExpressionError(f"an array has no element {self.key}", hint="use get(array, position)")
        return pc.list_element(array, self.key) if not outside else pa.nulls(len(array), array.type.value_type)


@dataclass(frozen=True)
class Apply(Node):
    """A kernel over the values of its arguments. ``options`` are its further, constant, arguments."""

    kernel: Kernel
    arguments: tuple[Node, ...]
    options: tuple[Any, ...] = ()

    def children(self) -> Sequence[Node]:
        return self.arguments

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        data = [argument.evaluate(batch) for argument in self.arguments]
        return _by_array(data, lambda *given: self.kernel(*given, *self.options))


def _by_array(data: Sequence[Datum], kernel: Kernel) -> Datum:
    """Call a kernel with one array at least; of scalars alone it makes a scalar."""
    single = all(isinstance(datum, pa.Scalar) for datum in data)
    given = [pa.repeat(datum, 1) for datum in data] if single else data
    try:
        found = kernel(*given)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise ExpressionError(str(error).splitlines()[0]) from None
    except OverflowError:
        raise ExpressionError("a value is outside the range of its type") from None
    return found[0] if single else found


@dataclass(frozen=True)
class Logic(Node):
    """AND or OR of conditions, in SQL's three-valued logic, from left to right."""

    conditions: tuple[Node, ...]
    every: bool

    def children(self) -> Sequence[Node]:
        return self.conditions

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        join = pc.and_kleene if self.every else pc.or_kleene
        found: pa.Array | None = None
        for condition in self.conditions:
            if found is None:
                found = _truth(condition, batch)
                continue
            decided = pc.fill_null(pc.equal(found, not self.every), False)
            found = join(found, _where(condition, batch, pc.invert(decided)))
        assert found is not None
        return found


def _truth(node: Node, batch: pa.RecordBatch) -> pa.Array:
    return spread_on(node, batch).cast(pa.bool_())


def _where(node: Node, batch: pa.RecordBatch, mask: pa.Array) -> pa.Array:
    """A condition's value on the rows of a mask; anything elsewhere."""
    if mask.false_count == 0 or isinstance(node, Column | Constant):
        return _truth(node, batch)
    rows = np.flatnonzero(to_numpy(mask))
    part = _truth(node, rows_for(node, batch, rows))
    places = np.zeros(batch.num_rows, np.int64)
    places[rows] = np.arange(len(rows))
    return part.take(arrow_array(places)) if len(rows) else pa.nulls(batch.num_rows, pa.bool_())


def rows_for(node: Node, batch: pa.RecordBatch, rows: Int64s) -> pa.RecordBatch:
    """Rows of the columns that a node needs."""
    names = [name for name in dict.fromkeys(columns(node)) if name in batch.schema.names]
    if not names:  # a batch without columns does not know its length
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[""])
    return batch.select(names).take(arrow_array(rows))


@dataclass(frozen=True)
class Choice(Node):
    """The value of the first branch whose condition is true; what COALESCE and IF are made of, too. ``branches``:
    conditions and values; a condition of None is true if the value itself is not NULL. ``otherwise``: the value if no
    condition is true."""

    branches: tuple[tuple[Node | None, Node], ...]
    otherwise: Node

    def children(self) -> Sequence[Node]:
        return (*(node for branch in self.branches for node in branch if node is not None), self.otherwise)

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        parts: list[pa.Array] = []
        places = np.zeros(batch.num_rows, np.int64)
        left = np.arange(batch.num_rows)
        offset = 0
        for condition, value in (*self.branches, (None, self.otherwise)):
            if not len(left):
                break
            last = value is self.otherwise
            whole = len(left) == batch.num_rows
            if condition is None:
                found = spread_on(value, batch if whole else rows_for(value, batch, left))
                taken = np.ones(len(left), np.bool_) if last else is_true(found.is_valid())
                places[left[taken]] = offset + np.flatnonzero(taken)
            else:
                held = spread_on(condition, batch if whole else rows_for(condition, batch, left)).cast(pa.bool_())
                taken = to_numpy(pc.fill_null(held, False))
                rows = left[taken]
                if not len(rows):
                    continue
                found = spread_on(value, batch if len(rows) == batch.num_rows else rows_for(value, batch, rows))
                places[rows] = offset + np.arange(len(rows))
            parts.append(found)
            offset += len(found)
            left = left[~taken]
        if len(parts) == 1 and offset == batch.num_rows:
            return parts[0]
        return pa.concat_arrays(parts).take(arrow_array(places)) if parts else pa.nulls(0, arrow_of(self.type))


def type_text(type_: DataType | None) -> str:
    """A type as errors show it."""
    return "NULL" if type_ is None else type_.kind.value


def has_kind(type_: DataType, kind: Kind) -> bool:
    """Whether a type is of a kind, or has one of it inside."""
    return type_.kind is kind or any(has_kind(inner, kind) for inner in type_.children())


def has_map(type_: DataType) -> bool:
    """Whether values of a type have maps in them, which can be neither compared nor hashed, in Spark neither."""
    return has_kind(type_, Kind.MAP)


@dataclass(frozen=True)
class OpenLambda(Node):
    """A function of items as it is written: the types of its parameters come from the function that takes it."""

    written: Lambda


ANY = 1_000_000
"""The number of arguments that stands for any number."""
Resolve = Callable[["Binder", "list[Node]"], Node]


@dataclass(frozen=True)
class Function:
    """A function or an operator.

    Attributes:
        arity: how many arguments it takes, at least and at most.
        resolve: makes a node of them; it raises LookupError for wrong types.
        of_items: whether an argument may be a function of items (``x -> x + 1``).
    """

    arity: tuple[int, int]
    resolve: Resolve
    of_items: bool = False


def typed(
    kernel: Callable[..., pa.Array], result: DataType, *wanted: DataType, options: tuple[Any, ...] = ()
) -> Resolve:
    """Arguments taken to fixed types; the last one stands for all that follow. ``options`` are as of `Apply`."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.coerce(a, wanted[min(n, len(wanted) - 1)]) for n, a in enumerate(arguments)]
        return Apply(result, kernel, tuple(given), options)

    return resolve
