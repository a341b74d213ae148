#!/usr/bin/env bash
# One would guess: on a terminal that reports no size, tqdm draws its bar for the usual 80 columns and 24 lines, as
#   shutil.get_terminal_size() does; a width given by ncols is all that it needs.
# What happens: it draws nothing at all. A pseudo terminal has 0 lines until somebody sets its size; tqdm takes one line
#   off, finds that the first bar is beyond the last line, and hides it. ncols changes nothing; nrows does.
# Why it matters: containers, test runners and remote shells often run commands on such terminals. A bar that is absent
#   there looks like a program that hangs. Programs have to give both ncols and nrows to tqdm.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check tqdm==4.70.1
cat > "$home/bar.py" <<'PY'
import sys

from tqdm import tqdm

given = {name: int(n) for name, n in (text.split("=") for text in sys.argv[1:])}
for _ in tqdm(range(3), file=sys.stderr, **given):
    pass
PY
cat > "$home/watch.py" <<'PY'
import fcntl, os, pty, select, struct, subprocess, sys, termios

lines, columns, *arguments = sys.argv[1:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", int(lines), int(columns), 0, 0))
environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
subprocess.run([sys.executable, *arguments], stderr=slave, env=environment, check=True)
drawn = b""
while select.select([master], [], [], 0.5)[0]:
    drawn += os.read(master, 65536)
print("drawn" if b"3/3" in drawn else "nothing")
PY
"$home/venv/bin/python" -c "import importlib.metadata as m, platform; print('tqdm', m.version('tqdm'), 'Python', platform.python_version())"
check() {
  expected=$1 lines=$2 columns=$3; shift 3
  seen=$("$home/venv/bin/python" "$home/watch.py" "$lines" "$columns" "$home/bar.py" "$@")
  printf '%2s lines, %2s columns, tqdm(%s): %s\n' "$lines" "$columns" "$*" "$seen"
  [ "$seen" = "$expected" ] || { echo "expected: $expected; the behaviour has changed"; exit 1; }
}
check drawn 24 80
check nothing 0 0
check nothing 0 0 ncols=80
check nothing 0 80
check drawn 0 0 ncols=80 nrows=24
