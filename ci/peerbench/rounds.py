"""Rounds of ours, theirs and theirs again, until the intervals are narrow."""

import time
from dataclasses import asdict, dataclass
from typing import Callable

from .cases import Metric, Series
from .parse import Figures
from .stats import Ratio, holm, median, ratio_of_medians

HALF_WIDTH = 0.05
"""An interval within ±5 % is narrow enough."""

FEWEST = 6
"""With fewer rounds nothing is called narrow or behind."""

Measure = Callable[[str], Figures]
"""Measures `ours`, `theirs` or `control`."""

SIDES = ("ours", "theirs", "control")


@dataclass(frozen=True)
class Limits:
    """When rounds end though an interval is wide."""

    rounds: int
    seconds: float


@dataclass
class Result:
    """A case as the JSON has it: `ratio` above 1 means that fabbench is ahead."""

    case: str
    peer: str
    version: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    lo: float
    hi: float
    rounds: int
    control_lo: float
    control_hi: float
    behind: bool = False


@dataclass(frozen=True)
class Judged:
    """A result with what Holm's correction needs."""

    result: Result
    p: float


def collect(measure: Measure, metrics: tuple[Metric, ...], limits: Limits,
            clock: Callable[[], float] = time.monotonic) -> dict[str, list[Figures]]:
    """Rounds; who begins changes from round to round, so that a drift meets all alike."""
    begun = clock()
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    for number in range(limits.rounds):
        order = [SIDES[(number + i) % len(SIDES)] for i in range(len(SIDES))]
        this_round = {side: measure(side) for side in order}
        for side in SIDES:
            found[side].append(this_round[side])
        if number + 1 >= FEWEST and all(ratio(found, m).narrow(HALF_WIDTH) for m in metrics):
            break
        spent = clock() - begun
        if spent + spent / (number + 1) > limits.seconds:
            break
    return found


def ratio(found: dict[str, list[Figures]], metric: Metric, ours: str = "ours", theirs: str = "theirs") -> Ratio:
    """Ours against theirs: above 1 means ahead."""
    own, peer = ([figures[metric.key] for figures in found[side]] for side in (ours, theirs))
    return ratio_of_medians(own, peer) if metric.more_is_better else ratio_of_medians(peer, own)


def judge(series: Series, version: str, found: dict[str, list[Figures]]) -> list[Judged]:
    """A result for each metric."""
    judged = []
    for case, metric in zip(series.cases(), series.metrics):
        mine, control = ratio(found, metric), ratio(found, metric, "control", "theirs")
        own, peer = (median([figures[metric.key] for figures in found[side]]) for side in ("ours", "theirs"))
        judged.append(Judged(Result(
            case, series.peer.name, version, metric.unit, round(own, 3), round(peer, 3), round(mine.ratio, 4),
            round(mine.lo, 4), round(mine.hi, 4), len(found["ours"]), round(control.lo, 4), round(control.hi, 4),
        ), mine.p if series.judged and len(found["ours"]) >= FEWEST else 1.0))
    return judged


def corrected(judged: list[Judged]) -> list[Result]:
    """All cases, `behind` set where the ratio is significantly below 1."""
    for one, fell in zip(judged, holm([j.p for j in judged])):
        one.result.behind = fell and one.result.hi < 1
    return [j.result for j in judged]


def as_json(results: list[Result]) -> list[dict[str, object]]:
    """Plain data."""
    return [asdict(result) for result in results]


def table(results: list[Result]) -> str:
    """What people read."""
    head = ("case", "unit", "fabbench", "peer", "ratio", "95 % interval", "A/A control", "rounds", "")
    rows = [head] + [row(result) for result in results]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    lines = []
    for cells in rows:
        padded = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths))]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def row(result: Result) -> tuple[str, ...]:
    """One line of the table."""
    return (
        result.case, result.unit, f"{result.ours:.2f}", f"{result.theirs:.2f}", f"{result.ratio:.3f}",
        f"{result.lo:.3f}–{result.hi:.3f}", f"{result.control_lo:.3f}–{result.control_hi:.3f}",
        str(result.rounds), "behind" if result.behind else "",
    )
