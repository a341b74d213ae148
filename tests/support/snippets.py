"""Python as people type it: statements, and an expression at the end whose value is shown."""

from __future__ import annotations

import ast
from typing import Any


def run_typed(code: str, names: dict[str, Any]) -> Any:
    """Run it in a namespace; the value of the expression that it ends with, None where it ends otherwise."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<typed>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<typed>", "eval"), names)
