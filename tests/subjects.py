"""Check the subjects of commits: `python -m tests.subjects` fails for one that is not imperative, or too long.

A subject begins with a verb, has at most 72 characters and no full stop; the why stands in the body (CONTRIBUTING.md).
"""

import subprocess
import sys

from tests.prose import ROOT, begins_with_a_verb

SINCE = "2026-11-29T05:28:00Z"  # older subjects were written before there was a rule
MOST = 72


def faults(subject: str) -> list[str]:
    """Return what is wrong with a subject."""
    found = []
    if len(subject) > MOST:
        found.append(f"has {len(subject)} characters, more than {MOST}")
    if not begins_with_a_verb(subject):
        found.append("does not begin with a capital letter and a verb that tests/data/prose.toml lists")
    if subject.endswith("."):
        found.append("ends with a full stop")
    return found


def subjects() -> list[str]:
    """Return the subjects of the commits since the rule, merges left out; none where git has no history."""
    log = ["git", "log", "--no-merges", f"--since={SINCE}", "--format=%s"]
    done = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def main() -> int:
    """Print each subject with its faults; return 1 where there is one."""
    bad = [(subject, found) for subject in subjects() if (found := faults(subject))]
    for subject, found in bad:
        print(f"{subject!r} {' and '.join(found)}.")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
