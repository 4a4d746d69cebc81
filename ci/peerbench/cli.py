"""The command line of `ci/bench-peers`."""

import argparse
import fnmatch
import json
import platform
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Optional

from . import gloo, openmpi, rounds
from .cases import Series
from .collectives import collective_series
from .cases import all_series as point_to_point
from .lab import REPO, Guests, PeerError, note
from .stats import geometric_mean

NODE_B = "192.168.100.2"
"""Address of node-b's rail 0."""


def all_series(address: str) -> list[Series]:
    """Everything that is compared."""
    return point_to_point(address) + collective_series()


def main(arguments: list[str]) -> int:
    """0: measured, nobody behind; 1: a case is behind; 2: wrong usage; 3: something was not measured."""
    options = parser().parse_args(arguments)
    patterns = options.cases or ["*"]
    chosen = choose(all_series(NODE_B), patterns)
    if not chosen:
        print(f"bench-peers: no case matches {' or '.join(patterns)}: --list names them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(listing(chosen)))
        return 0
    try:
        return bench(chosen, options)
    except (PeerError, OSError, subprocess.SubprocessError) as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The options."""
    top = argparse.ArgumentParser(
        prog="ci/bench-peers", description="fabbench beside perftest, qperf, iperf3, sockperf, Open MPI and Gloo, in the Soft-RoCE lab.")
    top.add_argument("--cases", metavar="GLOB", action="append",
                     help="only these, e.g. 'perftest/write_bw/*' (--list names them); may be given again")
    top.add_argument("--rounds", type=positive, default=12, metavar="N", help="most rounds a series (default 12)")
    top.add_argument("--minutes", type=float, default=5.0, metavar="M", help="most minutes a series (default 5)")
    top.add_argument("--json", type=Path, metavar="FILE", help="write the results as a list")
    top.add_argument("--list", action="store_true", help="name the cases with both commands, and end")
    top.add_argument("--binary", type=Path, default=REPO / "target" / "release" / "fabbench", metavar="FILE",
                     help="fabbench to measure (default target/release/fabbench)")
    top.add_argument("--no-own-cost", action="store_true", help="leave out the loops' own cost over null")
    return top


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number above 0")
    return int(text)


def choose(series: list[Series], patterns: list[str]) -> list[Series]:
    """Series of which a case matches any pattern, with the matching cases only."""
    def wanted(case: str) -> bool:
        return any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)

    found = []
    for one in series:
        kept = tuple(m for case, m in zip(one.cases(), one.metrics) if wanted(case))
        if kept:
            found.append(replace(one, metrics=kept))
    return found


def listing(series: list[Series]) -> list[str]:
    """Cases with both commands."""
    lines = []
    for one in series:
        lines += one.cases()
        lines += [f"    fabbench {shlex.join(one.ours)}", f"    {shlex.join(one.peer.client)}"]
    return lines


def bench(series: list[Series], options: argparse.Namespace) -> int:
    """Everything, from the packages to the table."""
    if not options.binary.exists():
        raise PeerError(f"{options.binary} is missing: cargo build --release")
    subprocess.run([REPO / "ci" / "install-packages", "lab", "peers"], check=True, stdout=sys.stderr)
    if any(one.peer.name == "openmpi" for one in series):
        openmpi.build()
    if any(one.peer.name == "gloo" for one in series):
        gloo.build()
    if not options.no_own_cost:
        print(own_cost(), flush=True)
    guests = Guests(options.binary)
    judged: list[rounds.Judged] = []
    left_out: list[str] = []
    versions: dict[str, str] = {}
    try:
        guests.start()
        versions = guests.versions()
        for one in series:
            measure(guests, one, versions, options, judged, left_out)
    except KeyboardInterrupt:
        left_out.append("the rest: interrupted")
    finally:
        guests.finish()
    return tell(judged, left_out, versions, options.json)


def measure(guests: Guests, series: Series, versions: dict[str, str], options: argparse.Namespace,
            judged: list[rounds.Judged], left_out: list[str]) -> None:
    """One series; what gives no result is named and left out."""
    if not guests.supports(series.ours[0], series.needs):
        left_out.append(f"{series.name}: this fabbench has no {', '.join(series.needs)}")
        return
    note(series.name)

    def side(which: str) -> dict[str, float]:
        if which == "ours":
            return guests.measured(lambda: guests.ours(series.ours), "fabbench " + shlex.join(series.ours))
        return guests.measured(lambda: guests.theirs(series.peer), shlex.join(series.peer.client))

    try:
        found = rounds.collect(side, series.metrics, rounds.Limits(options.rounds, options.minutes * 60))
    except PeerError as error:
        left_out.append(f"{series.name}: {error}")
        return
    judged += rounds.judge(series, versions.get(series.peer.name, "unknown"), found)
    note(rounds.table([j.result for j in judged[-len(series.metrics):]]))


def tell(judged: list[rounds.Judged], left_out: list[str], versions: dict[str, str], path: Optional[Path]) -> int:
    """Table, file, exit code."""
    results = rounds.corrected(judged)
    if path:
        path.write_text(json.dumps(rounds.as_json(results), indent=1) + "\n")
    print("peers: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    print(f"machine: {machine()}")
    if results:
        print(rounds.table(results))
        mean = geometric_mean([result.ratio for result in results])
        print(f"geometric mean of the ratios: {mean:.3f} (above 1: fabbench is ahead)")
    for line in left_out:
        print(f"not measured: {line}")
    if left_out or not results:
        return 3
    return 1 if any(result.behind for result in results) else 0


def machine() -> str:
    """What it ran on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"{len(models)} CPUs {model}, Linux {platform.release()}"


def own_cost() -> str:
    """The loops' own cost over the null transport, as the benchmark prints it before its table."""
    note("own cost over null: cargo bench --bench loops")
    done = subprocess.run(["cargo", "bench", "--bench", "loops", "--", "no-bench-of-this-name"], check=False, cwd=REPO,
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("clock:", "bandwidth loop:", "latency loop:"))]
    if done.returncode != 0 or not lines:
        raise PeerError("cargo bench --bench loops failed: run it by hand, or leave it out with --no-own-cost")
    return "own cost over null\n" + "\n".join(f"  {line}" for line in lines)
