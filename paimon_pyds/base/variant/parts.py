"""VARIANT columns of which only some parts are wanted."""

from __future__ import annotations

from typing import TypeAlias

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.model import AtomicType

Path: TypeAlias = "tuple[str | int, ...]"
"""Keys of objects, and places in arrays from 0."""


@dataclass(frozen=True, slots=True, repr=False)
class VariantParts(AtomicType):
    """VARIANT, of whose values the parts at these paths are wanted: a reader may leave out all others."""

    paths: tuple[Path, ...] = ()
