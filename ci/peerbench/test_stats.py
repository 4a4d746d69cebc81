"""Intervals and corrections against values worked out by hand."""

import random
import unittest

from .stats import geometric_mean, holm, ratio_of_medians


class Ratios(unittest.TestCase):
    def test_equal_series_have_ratio_one_and_no_width(self):
        found = ratio_of_medians([5.0] * 6, [5.0] * 6)
        self.assertEqual((found.ratio, found.lo, found.hi), (1, 1, 1))
        self.assertTrue(found.narrow(0.05))
        self.assertEqual(found.p, 1)

    def test_rounds_are_resampled_as_pairs(self):
        # Both sides swing fourfold together: every pair has the ratio 0.9, so no resample leaves it.
        theirs = [1.0, 2.0, 4.0, 1.5, 3.0, 2.5, 3.5]
        found = ratio_of_medians([0.9 * value for value in theirs], theirs)
        for value in (found.ratio, found.lo, found.hi):
            self.assertAlmostEqual(value, 0.9)
        self.assertLess(found.p, 0.001)

    def test_the_interval_is_the_same_each_time_and_holds_the_truth(self):
        chance = random.Random(7)
        ours = [100 * chance.uniform(0.9, 1.1) for _ in range(20)]
        theirs = [100 * chance.uniform(0.9, 1.1) for _ in range(20)]
        found = ratio_of_medians(ours, theirs)
        self.assertEqual(found, ratio_of_medians(ours, theirs))
        self.assertTrue(found.lo < 1 < found.hi, found)
        self.assertTrue(found.lo <= found.ratio <= found.hi, found)

    def test_the_interval_covers_the_truth_about_as_often_as_it_says(self):
        chance = random.Random(3)
        covered = 0
        for trial in range(30):
            pairs = [(chance.gauss(100, 8), chance.gauss(100, 8)) for _ in range(12)]
            found = ratio_of_medians([a for a, _ in pairs], [b for _, b in pairs], seed=trial)
            covered += found.lo <= 1 <= found.hi
        self.assertGreaterEqual(covered, 25)

    def test_series_of_different_length_are_refused(self):
        self.assertRaisesRegex(ValueError, "pairs", ratio_of_medians, [1.0], [1.0, 2.0])
        self.assertRaisesRegex(ValueError, "pairs", ratio_of_medians, [], [])


class Corrections(unittest.TestCase):
    def test_holm_by_hand(self):
        # 0.05/4, 0.05/3, 0.05/2, 0.05/1 against 0.005, 0.01, 0.03, 0.04: the third stands, so the fourth does.
        self.assertEqual(holm([0.01, 0.04, 0.03, 0.005]), [True, False, False, True])
        self.assertEqual(holm([0.04]), [True])
        self.assertEqual(holm([0.03, 0.03]), [False, False])
        self.assertEqual(holm([]), [])

    def test_geometric_mean(self):
        self.assertAlmostEqual(geometric_mean([0.5, 2.0]), 1.0)
        self.assertAlmostEqual(geometric_mean([0.9, 1.0, 1.1]), (0.99) ** (1 / 3))
