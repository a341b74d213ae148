"""Workers whose interpreter lacks this package, or what it needs: one sentence says so, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import pyarrow as pa
from pyspark import cloudpickle

from paimon_pyds import register
from paimon_pyds.errors import PaimonError
from paimon_pyds.spark import compat
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.source import PaimonDataSource, PaimonPushdownDataSource

pytestmark = pytest.mark.spark

HIDING = """
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "{package}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
"""
WORKER = """
import pickle, sys, traceback
source = pickle.load(sys.stdin.buffer)
assert source.name() == "paimon"
try:
    source(options={"path": "/nowhere"})
except Exception:
    print(traceback.format_exc())
"""


def _registered(pushdown: bool = False) -> type:
    """The class that a session gets for the name ``paimon``."""
    session = Session()
    register(session, pushdown=pushdown)
    return session.registered[-1]


class Session:
    """A session as far as `register` needs one."""

    def __init__(self, interpreter: str = "none", master: str = "local[2]") -> None:
        self.registered: list[type] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)
        self.conf = SimpleNamespace(set=lambda *_: None)
        self._sc = SimpleNamespace(master=master, pythonExec=interpreter)


def test_a_session_whose_workers_lack_the_package_is_told_of_at_once(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text(f"#!{sys.executable} -S\nprint('pyarrow xxhash')\n")
    other.chmod(0o755)
    with pytest.warns(RuntimeWarning, match=f"workers run {other}, which has no pyarrow — set .* PYSPARK_PYTHON to"):
        register(Session(str(other)))
    other.write_text("#!/bin/sh\nexit 1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for session in (Session(str(other)), Session(sys.executable), Session(str(other), "yarn"), Session("none")):
            register(session)


@pytest.mark.parametrize("package", ["paimon_pyds", "numpy"])
def test_a_worker_without_a_package_says_so(tmp_path: Path, package: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(package=package))
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=cloudpickle.dumps(_registered()),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (
        f"RuntimeError: Spark's Python workers run {sys.executable}, which has no {package} — set the environment "
        f"variable PYSPARK_PYTHON to {sys.executable} before"
    ) in done.stdout.decode()


def test_a_worker_that_finds_the_source_and_lacks_what_it_needs_says_so(tmp_path: Path) -> None:
    """Spark finds the source by its name, `register` was not called, and the package lies on a path of its own."""
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(package="numpy"))
    code = "from pyspark_paimon import DefaultSource as source\nsource(options={'path': '/nowhere'}).schema()"
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    said = (
        f"PaimonError: Spark's Python workers run {sys.executable}, which has no numpy — set the environment variable"
    )
    assert said in done.stderr and "ModuleNotFoundError" not in done.stderr


def test_a_worker_with_the_package_gets_the_source() -> None:
    again = cloudpickle.loads(cloudpickle.dumps(_registered()))
    assert type(again(options={"path": "/nowhere"})) is PaimonDataSource
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = _registered(pushdown=True)
    assert type(source({})) is (PaimonPushdownDataSource if compat.SUPPORTS_PUSHDOWN else PaimonDataSource)


def test_tasks_on_workers_without_the_package() -> None:
    class Frame:
        repartition = mapInArrow = lambda self, *_: self

        def toArrow(self) -> pa.Table:
            raise RuntimeError(self.text)

    frame = Frame()
    session = SimpleNamespace(createDataFrame=lambda _: frame)
    frame.text = "Traceback …\nModuleNotFoundError: No module named 'paimon_pyds'"
    with pytest.raises(PaimonError, match="which has no paimon_pyds — set the environment variable PYSPARK_PYTHON"):
        list(SparkExecutor(session).map(len, ["task"]))
    frame.text = "no space left"
    with pytest.raises(RuntimeError, match="no space left"):
        list(SparkExecutor(session).map(len, ["task"]))
