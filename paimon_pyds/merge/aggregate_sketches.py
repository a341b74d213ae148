"""The aggregate functions theta_sketch and hll_sketch: unions of serialized Apache DataSketches.

They need the package datasketches, which is not installed with this one. A sketch that is the only one that is not NULL
stays as it is, and is not looked at. (Java: classes FieldThetaSketchAgg and FieldHllSketchAgg.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from paimon_pyds.errors import CorruptFileError, UnsupportedError

_Merge = Callable[[Sequence[bytes]], bytes]
_BAD_BYTES = (ValueError, IndexError, OverflowError, RuntimeError, MemoryError)
"""What the library raises for bytes that are no sketch."""


def theta_union() -> _Merge:
    """What unites theta sketches of the default seed into one of at most 4,096 entries, compact and ordered.

    Raises:
        UnsupportedError: the package datasketches is not there; so does `hll_union`.
    """
    library = _library("theta_sketch")

    def merge(sketches: Sequence[bytes]) -> bytes:
        union = library.theta_union()
        try:
            for sketch in sketches:
                union.update(library.compact_theta_sketch.deserialize(sketch))
        except _BAD_BYTES as error:
            raise CorruptFileError(f"not a theta sketch: {error}") from None
        return bytes(union.get_result().serialize())

    return merge


def hll_union() -> _Merge:
    """What unites HLL sketches into one of type HLL_4, each newer one setting the greatest size that is kept."""
    library = _library("hll_sketch")

    def merge(sketches: Sequence[bytes]) -> bytes:
        try:
            united, *newer = [library.hll_sketch.deserialize(sketch) for sketch in sketches]
            for sketch in newer:
                union = library.hll_union(sketch.lg_config_k)
                union.update(sketch)
                union.update(united)
                united = union.get_result(library.tgt_hll_type.HLL_4)
        except _BAD_BYTES as error:
            raise CorruptFileError(f"not an HLL sketch: {error}") from None
        return bytes(united.serialize_compact())

    return merge


def _library(function: str) -> ModuleType:
    try:
        import datasketches
    except ImportError:
        raise UnsupportedError(
            f"the aggregate function {function} needs the package datasketches",
            hint="pip install 'paimon-pyds[sketches]'",
        ) from None
    return datasketches  # type: ignore[no-any-return]
