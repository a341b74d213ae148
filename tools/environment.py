"""Make, or bring up to date, one of the project's virtual environments: ``python tools/environment.py NAME``.

    .venvs/newest   the newest Spark 4.x on the index that this Python can run, newest everything, tools of `make check`
    .venvs/oldest   Spark 4.0.*, and the lowest versions of our own dependencies that pyproject.toml allows
    .venvs/pypaimon pypaimon, which asks for other versions of what we use, and DuckDB with its Iceberg extension: peers
    .venvs/demo     what `make demo` needs: the newest Spark, without Connect
    .venvs/package  what `make package` needs: no Spark, nothing of ours

A stamp in the environment holds a digest of what went into it, so that a second call does nothing. Standard library
only, and syntax that an old Python 3 can parse: its first task is to say what is missing.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "{}.{}".format(*sys.version_info[:2])
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
ENVIRONMENTS = {
    "newest": {"extras": ["spark", "test", "cross", "notebook", "check", "docs"], "pins": [], "size": "2.5 GB"},
    # By its name with the extra: pip does not hold pyspark[connect] to a version of pyspark, and downloads all of them.
    "oldest": {"extras": ["spark", "test"], "pins": ["pyspark[connect]==4.0.*"], "size": "1.3 GB", "floors": True},
    "pypaimon": {
        "extras": [],
        "pins": [
            "pypaimon==2.1.0",
            "paimon-vindex==0.5.0",
            "paimon-ftindex==0.1.0",
            # The newest DuckDB whose Iceberg extension is a package; newer ones download theirs when they run.
            *(
                f"{name}; platform_machine == 'x86_64' and sys_platform == 'linux'"
                for name in ("duckdb==1.4.4", "duckdb-ext-iceberg==1.4.4.*", "duckdb-ext-avro==1.4.4.*")
            ),
        ],
        "size": "0.7 GB",
    },
    "demo": {"extras": ["demo"], "pins": ["pyspark>=4.0,<5", "pandas<3"], "size": "0.9 GB"},
    "package": {"extras": [], "pins": ["build>=1.2", "hatchling>=1.24"], "size": "30 MB"},
}
SHOWN = re.compile(r"\s*(Downloading|Using cached|Building wheels?|Installing collected packages|ERROR|error)\b")
"""Lines of pip that say what it is doing, where nobody watches its progress bars."""
# The lowest versions have wheels for Python 3.11 and 3.12; a newer Python takes newer versions of them.
NEWEST_PYTHON_WITH_FLOORS = (3, 12)


def fail(what, *hints):
    sys.stderr.write("\n{}\n{}\n\n".format(what, "\n".join("  " + hint for hint in hints)))
    sys.exit(1)


def check_python():
    if sys.version_info < OLDEST_PYTHON:
        fail(
            f"This is Python {PYTHON} ({sys.executable}); paimon_pyds needs Python 3.11 or later.",
            "On Debian 12 and later:  sudo apt-get install python3 python3-venv",
            "Another interpreter:     make test PYTHON=/path/to/python3.11",
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail(
            f"Python's venv module is missing in {sys.executable}.",
            "On Debian:  sudo apt-get install python3-venv",
        )


def java_version(java):
    """The major version of a java command, or None when it doesn't run."""
    try:
        done = subprocess.run(
            [java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stdout.decode("utf-8", "replace"))
    return int(found.group(1)) if found else None


def check_java():
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    version = java_version(java) if java else None
    hints = [
        "On Debian 12 and later:  sudo apt-get install default-jre-headless",
        "Another Java:            make test JAVA_HOME=/path/to/jdk-17",
    ]
    if version is None:
        where = f" (JAVA_HOME={home})" if home else ""
        fail(f"Java is missing{where}; Spark 4 needs Java 17 or later.", *hints)
    if version < OLDEST_JAVA:
        fail(f"This is Java {version} ({java}); Spark 4 needs Java 17 or later.", *hints)


def floors(pyproject):
    """``name==lowest`` of each of our own dependencies, with its marker."""
    if sys.version_info[:2] > NEWEST_PYTHON_WITH_FLOORS:
        return []
    block = re.search(r"^dependencies = \[(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL).group(1)
    found = re.findall(r'"([\w.-]+)>=([\w.]+)(;[^"]*)?', block)
    return [f"{dependency}=={lowest}{marker}" for dependency, lowest, marker in found]


def digest(name, requirements):
    """What the environment is made from."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        made_from = hashlib.sha256(f.read())
    made_from.update(repr((name, requirements, sys.version_info[:3])).encode())
    return made_from.hexdigest()


def usable(python):
    if not os.path.exists(python):
        return False
    code = "import sys, pip; print(*sys.version_info[:2], sep='.')"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and done.stdout.decode().strip() == PYTHON


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def only_one(name):
    """One process at a time: jobs of `make test` may need the same environment."""
    os.makedirs(os.path.join(ROOT, ".venvs"), exist_ok=True)
    with open(os.path.join(ROOT, ".venvs", f".{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(name):
    spec = ENVIRONMENTS[name]
    home = os.path.join(ROOT, ".venvs", name)
    python = os.path.join(home, "bin", "python")
    stamp = os.path.join(home, ".made-from")
    pins = spec["pins"] + (floors(read(os.path.join(ROOT, "pyproject.toml"))) if spec.get("floors") else [])
    ours = ["--editable", "{}[{}]".format(ROOT, ",".join(spec["extras"]))] if spec["extras"] else []
    requirements = [*ours, *pins]
    wanted = digest(name, requirements)
    if read(stamp) == wanted and os.path.exists(python):
        return
    started = time.monotonic()
    print(f"Making .venvs/{name} with Python {PYTHON}: {spec['size']}, a minute or more the first time", flush=True)
    if not usable(python):
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    if os.path.exists(stamp):
        os.remove(stamp)
    if install(python, requirements, started) != 0:
        fail(
            f"pip could not install the dependencies of .venvs/{name} (its message is above).",
            "Is a package index reachable? Behind a mirror, set PIP_INDEX_URL and run make again.",
        )
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(wanted)
    print(f".venvs/{name} is ready after {time.monotonic() - started:.0f} s: {versions(python)}", flush=True)


def install(python, requirements, started):
    """Run pip, and show what it does. Gives its exit code. Python compiles what is imported, a part of all modules."""
    options = ["--disable-pip-version-check", "--no-input", "--no-compile"]
    command = [python, "-m", "pip", "install", *options, *requirements]
    if sys.stdout.isatty():
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    for line in process.stdout:
        if SHOWN.match(line):
            print(f"{time.monotonic() - started:4.0f} s  {line.strip():.100}", flush=True)
    return process.wait()


def versions(python):
    """Those of what matters in an environment."""
    code = (
        "from importlib.metadata import distributions as d\n"
        "found = {x.metadata['Name'].lower(): x.version for x in d()}\n"
        "print(*(f'{n} {found[n]}' for n in ('pyspark', 'pyarrow', 'pypaimon', 'build') if n in found), sep=', ')"
    )
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().strip()


def main(arguments):
    unknown = [a for a in arguments if a not in ENVIRONMENTS and a != "--java"]
    if unknown or not arguments:
        fail("usage: python tools/environment.py [--java] {} ...".format("|".join(ENVIRONMENTS)))
    check_python()
    if "--java" in arguments:
        check_java()
    for name in arguments:
        if name in ENVIRONMENTS:
            with only_one(name):
                make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
