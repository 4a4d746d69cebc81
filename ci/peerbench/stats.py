"""Ratios of paired rounds: medians, bootstrap intervals, Holm's correction."""

import math
import random
from dataclasses import dataclass
from typing import Sequence

RESAMPLES = 2000
LEVEL = 0.95
ALPHA = 0.05
SEED = 1


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians with its interval; `p` is the share of resamples in which it is not below 1."""

    ratio: float
    lo: float
    hi: float
    p: float

    def narrow(self, half_width: float) -> bool:
        """Whether the interval stays within this share of the ratio on both sides."""
        return self.hi - self.ratio <= half_width * self.ratio and self.ratio - self.lo <= half_width * self.ratio


def ratio_of_medians(over: Sequence[float], under: Sequence[float], seed: int = SEED) -> Ratio:
    """Median of `over` by median of `under`, rounds resampled as pairs (percentile bootstrap, seeded).

    The two have one value a round, in the same order.
    """
    if len(over) != len(under) or not over:
        raise ValueError(f"{len(over)} values against {len(under)}: rounds are pairs")
    chance = random.Random(seed)
    count = len(over)
    found = []
    for _ in range(RESAMPLES):
        drawn = [chance.randrange(count) for _ in range(count)]
        found.append(median([over[i] for i in drawn]) / median([under[i] for i in drawn]))
    found.sort()
    tail = (1 - LEVEL) / 2
    not_below = sum(value >= 1 for value in found)
    return Ratio(
        ratio=median(over) / median(under),
        lo=quantile(found, tail),
        hi=quantile(found, 1 - tail),
        p=(not_below + 1) / (RESAMPLES + 1),
    )


def median(values: Sequence[float]) -> float:
    """The middle, or the mean of the two middle ones."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def quantile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank."""
    rank = max(1, math.ceil(share * len(ordered)))
    return ordered[rank - 1]


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Which hypotheses fall when all of them are tested together (Holm 1979): the k-th smallest of m
    falls below alpha / (m - k + 1), as long as every smaller one fell."""
    fallen = [False] * len(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    for step, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - step):
            break
        fallen[index] = True
    return fallen


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios: their product's root."""
    return math.exp(sum(map(math.log, values)) / len(values))
