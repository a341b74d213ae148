"""Check commit messages: ``python tools/commit_messages.py`` those since the rule began, ``… FILE`` the one being made.

A subject has at most 72 characters, begins with a capital verb in the imperative, and ends without a full stop; a blank
line follows, then a body that says why. Branches are squashed or rebased, so there are no merge commits. Standard
library only.
"""

import re
import subprocess
import sys
from pathlib import Path

RULE_BEGAN_AFTER = "7ca9fbd940b55c4c2cec0c3572b233999e898d18"
LONGEST_SUBJECT = 72  # characters; git and code hosts cut longer ones
NOT_IMPERATIVE = re.compile(r"(?!(?:\w*eed|Embed|Shed|\w?[BRPK]ing|String|Bring|\w*ss|Focus)\b)\w+(?:ed|ing|s)\b")


def faults(message):
    """What the message breaks, one sentence each."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; {LONGEST_SUBJECT} are the limit")
    if not subject[:1].isupper() or NOT_IMPERATIVE.match(subject) or subject.startswith("Merge branch"):
        found.append("the subject begins with a capital verb in the imperative, such as Add, Fix, Refuse")
    if subject.endswith("."):
        found.append("the subject ends without a full stop")
    if len(lines) < 3 or lines[1].strip() or not any(line.strip() for line in lines[2:]):
        found.append("a blank line and a body that says why follow the subject")
    return found


def git(*arguments):
    done = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def committed():
    """(name, message) of the commits since the rule began; none outside a clone, or in one without that history."""
    if git("merge-base", "--is-ancestor", RULE_BEGAN_AFTER, "HEAD") is None:
        return []
    log = git("log", "--format=%h%x00%B%x01", f"{RULE_BEGAN_AFTER}..HEAD") or ""
    return [tuple(record.strip("\n").split("\0", 1)) for record in log.split("\1") if record.strip("\n")]


def main(files):
    messages = [(name, Path(name).read_text(encoding="utf-8")) for name in files] if files else committed()
    bad = [(name, message, fault) for name, message in messages for fault in faults(message)]
    for name, message, fault in bad:
        first = message.splitlines()[0] if message.splitlines() else ""
        sys.stderr.write(f"{name}: {fault}\n    {first}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
