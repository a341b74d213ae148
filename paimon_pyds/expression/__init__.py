"""SQL value expressions and conditions in Spark's dialect, over Arrow batches.

`bind_expression` and `bind_condition` take SQL text, Python values and pyarrow expressions to a `BoundExpression`,
which evaluates on batches; `split_condition` keeps what statistics and indexes can answer apart from the rest.
"""

from paimon_pyds.expression.bind import Scope
from paimon_pyds.expression.bound import BoundExpression, Operand, bind_condition, bind_expression
from paimon_pyds.expression.condition import Condition, Residual, split_condition
from paimon_pyds.expression.join import JoinCondition, JoinKey, SourceKeys, expand, split_join
from paimon_pyds.expression.parse import parse_expression

__all__ = [
    "BoundExpression",
    "Condition",
    "JoinCondition",
    "JoinKey",
    "Operand",
    "Residual",
    "Scope",
    "SourceKeys",
    "bind_condition",
    "bind_expression",
    "expand",
    "parse_expression",
    "split_condition",
    "split_join",
]
