"""What users call, by name: of tables with the namespaces, of Spark with the modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import paimon_pyds as pp
from paimon_pyds.catalog.system import CatalogSystem

NAMESPACES = ("tags", "branches", "snapshots", "index", "maintenance", "system")


def public(owner: object) -> list[str]:
    """The members that have a public name, inherited ones too."""
    return [name for name in dir(owner) if not name.startswith("_")]


def calls_of(owner: object) -> dict[str, Callable[..., Any]]:
    """The methods or functions that have a public name."""
    return {name: call for name in public(owner) if inspect.isroutine(call := getattr(owner, name))}


def namespace(name: str) -> type:
    """The class of one of a table's namespaces."""
    found: type = getattr(import_module(f"paimon_pyds.namespaces.{name}"), name.capitalize())
    return found


def table_calls() -> dict[str, Callable[..., Any]]:
    """``append``, ``tags.create``, …"""
    below = {f"{n}.{name}": call for n in NAMESPACES for name, call in calls_of(namespace(n)).items()}
    return calls_of(pp.Table) | below


def catalog_calls() -> dict[str, Callable[..., Any]]:
    """``table``, ``system.read``, …"""
    return calls_of(pp.Catalog) | {f"system.{name}": call for name, call in calls_of(CatalogSystem).items()}


def spark_calls(spark: ModuleType) -> dict[str, Callable[..., Any]]:
    """``write``, ``index.build``, …, of `paimon_pyds.spark`."""
    found = {}
    for name in spark.__all__:
        member = getattr(spark, name)
        if inspect.ismodule(member):
            found |= {f"{name}.{below}": getattr(member, below) for below in member.__all__}
        elif inspect.isroutine(member):
            found[name] = member
    return found
