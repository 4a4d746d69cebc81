"""The lab tests, each counted once: a test that lost its guest to a dead kernel is run again.

An emulated guest's kernel may die whatever fabbench does. Such a test has neither passed nor failed,
so it runs again on a new lab, a few times at most, and that is said. A test that failed while both
guests lived has failed.
"""

import re
import subprocess
import sys

from .common import REPO

COMMAND = (
    *("cargo", "test", "--package", "fabbench", "--features", "lab", "--test", "lab", "--no-fail-fast"),
    *("--", "--test-threads=1"),
)
RERUNS = 3
DEAD_GUEST = re.compile(r"node-[a-d]: (panicked|dead)\b")
"""How `ci/lab status`, which a failing test quotes, names a guest whose kernel or QEMU ended."""


def outcomes(text):
    """{test: True if it passed} of libtest's output."""
    found = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. .*?\b(ok|FAILED)$", text, re.M)
    return {name: word == "ok" for name, word in found}


def sections(text):
    """{test: what it printed} of the tests that failed."""
    parts = re.split(r"^---- (\S+) stdout ----$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def without_guest(text):
    """Failed tests that had lost a guest."""
    said = sections(text)
    return [name for name, passed in outcomes(text).items() if not passed and DEAD_GUEST.search(said.get(name, ""))]


def whole(text):
    """Whether the test program ran to its end: a crash leaves no result line."""
    return re.search(r"^test result: ", text, re.M) is not None


def run_tests(names):
    """Run tests by exact name, all without any; shows their output and returns it."""
    command = [*COMMAND, *(["--exact", *names] if names else [])]
    said = []
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as tests:
        for line in tests.stdout:
            said.append(line)
            # Only the sum at the end is a result line: `ci/test` counts those.
            print(re.sub(r"^test result: ", "this run: ", line), end="", flush=True)
    return "".join(said)


def all_tests(run=run_tests, say=print):
    """Run all tests, those without their guest again; prints one result line, returns the exit code."""
    text = run([])
    results = outcomes(text)
    complete = whole(text)
    for _ in range(RERUNS):
        again = without_guest(text)
        if not again or not complete:
            break
        say(f"a guest's kernel died during {len(again)} test(s), which run again on a new lab: {' '.join(again)}")
        text = run(again)
        complete = whole(text)
        results.update(outcomes(text))
    failed = sorted(name for name, passed in results.items() if not passed)
    for name in failed:
        say(f"failed: {name}")
    if not complete:
        say("the lab tests did not run to their end")
    good = complete and not failed and bool(results)
    say(f"test result: {'ok' if good else 'FAILED'}. {len(results) - len(failed)} passed; {len(failed) + (not complete)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(all_tests())
