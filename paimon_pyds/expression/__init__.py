"""SQL value expressions and conditions in Spark's dialect, over Arrow batches.

`bind_expression` and `bind_condition` take SQL text, Python values and pyarrow expressions to a `BoundExpression`,
which evaluates on batches; `bind_filter` makes a predicate of a condition on a table, with leaves where statistics and
indexes answer. Modules are imported when they are used: planning a filter without functions needs few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Scope
    from paimon_pyds.expression.bound import BoundExpression, Operand, bind_condition, bind_expression
    from paimon_pyds.expression.condition import bind_filter, bind_rows_condition
    from paimon_pyds.expression.join import JoinCondition, JoinKey, SourceKeys, expand, split_join

__all__ = [
    "BoundExpression", "JoinCondition", "JoinKey", "Operand", "Scope", "SourceKeys", "bind_condition",
    "bind_expression", "bind_filter", "bind_rows_condition", "expand", "split_join",
]  # fmt: skip

_MODULES = {
    "bind": ("Scope",),
    "bound": ("BoundExpression", "Operand", "bind_condition", "bind_expression"),
    "condition": ("bind_filter", "bind_rows_condition"),
    "join": ("JoinCondition", "JoinKey", "SourceKeys", "expand", "split_join"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
