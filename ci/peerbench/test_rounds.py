"""Rounds, verdicts and the command line, without a lab."""

import contextlib
import io
import itertools
import tempfile
import unittest
from pathlib import Path

from . import cli, rounds
from .cases import GOODPUT, P50, P99, TIMEOUT, all_series
from .rounds import Limits

SERIES = {series.name: series for series in all_series("192.168.100.2")}


class Counting:
    """Measures that give scripted figures and remember who was asked when."""

    def __init__(self, **values):
        self.values = {side: itertools.cycle(of) for side, of in values.items()}
        self.asked = []

    def __call__(self, side):
        self.asked.append(side)
        value = next(self.values[side])
        return {"goodput": value, "p50": value, "p99": value}


class Collecting(unittest.TestCase):
    def test_sides_take_turns_at_going_first(self):
        measure = Counting(ours=[10], theirs=[10], control=[10])
        rounds.collect(measure, (GOODPUT,), Limits(3, 60))
        self.assertEqual(measure.asked, ["ours", "theirs", "control", "theirs", "control", "ours", "control", "ours", "theirs"])

    def test_rounds_end_once_the_interval_is_narrow(self):
        measure = Counting(ours=[100, 101, 99], theirs=[100, 99, 101], control=[100])
        self.assertEqual(len(rounds.collect(measure, (GOODPUT,), Limits(30, 1e9))["ours"]), rounds.FEWEST)

    def test_rounds_go_on_while_it_is_wide_and_end_at_each_limit(self):
        wide = {"ours": [50, 100, 200, 400], "theirs": [100, 300], "control": [100]}
        self.assertEqual(len(rounds.collect(Counting(**wide), (GOODPUT,), Limits(9, 1e9))["ours"]), 9)
        ticks = itertools.count(0, 10)
        timed = rounds.collect(Counting(**wide), (GOODPUT,), Limits(99, 60), clock=lambda: next(ticks))
        self.assertEqual(len(timed["ours"]), 6)


class Judging(unittest.TestCase):
    def judged(self, name, **values):
        measure = Counting(**values)
        series = SERIES[name]
        return rounds.judge(series, "6.06", rounds.collect(measure, series.metrics, Limits(8, 1e9)))

    def test_above_one_is_ahead_whatever_the_unit(self):
        faster = self.judged("write_bw/64KiB", ours=[120], theirs=[100], control=[100])[0].result
        self.assertAlmostEqual(faster.ratio, 1.2)
        lower = self.judged("send_lat/8B", ours=[500], theirs=[600], control=[600])
        self.assertEqual([j.result.ratio for j in lower], [1.2, 1.2])
        self.assertEqual([j.result.case for j in lower], ["perftest/send_lat/8B/p50", "perftest/send_lat/8B/p99"])

    def test_behind_is_what_stays_significant_among_all(self):
        slow = self.judged("write_bw/64KiB", ours=[80, 82], theirs=[100, 101], control=[100, 99])
        even = self.judged("read_bw/64KiB", ours=[99, 101], theirs=[101, 99], control=[100])
        results = rounds.corrected(slow + even)
        self.assertEqual([r.behind for r in results], [True, False])
        self.assertIn("behind", rounds.table(results))

    def test_too_few_rounds_are_never_behind(self):
        series = SERIES["write_bw/64KiB"]
        found = rounds.collect(Counting(ours=[1], theirs=[100], control=[100]), series.metrics, Limits(2, 1e9))
        results = rounds.corrected(rounds.judge(series, "6.06", found))
        self.assertEqual((results[0].behind, results[0].rounds), (False, 2))

    def test_the_file_has_what_is_promised(self):
        results = rounds.corrected(self.judged("write_bw/64KiB", ours=[100], theirs=[100], control=[101]))
        keys = {"case", "peer", "version", "unit", "ours", "theirs", "ratio", "lo", "hi", "rounds",
                "control_lo", "control_hi", "behind"}
        self.assertEqual(set(rounds.as_json(results)[0]), keys)


class Cases(unittest.TestCase):
    def test_everything_asked_for_is_compared(self):
        names = {case for series in SERIES.values() for case in series.cases()}
        for op in ("send", "write", "read", "atomic"):
            self.assertLessEqual({f"perftest/{op}_lat/8B/p50", f"perftest/{op}_lat/8B/p99"}, names)
        for op, size in itertools.product(("send", "write", "read"), ("64B", "4KiB", "64KiB", "1MiB")):
            self.assertIn(f"perftest/{op}_bw/{size}/goodput", names)
        for peer in ("perftest/write_rate", "qperf/rc_lat", "qperf/tcp_bw", "iperf3/", "sockperf/"):
            self.assertTrue(any(name.startswith(peer) for name in names), peer)

    def test_no_side_has_a_short_timeout(self):
        self.assertGreaterEqual(TIMEOUT, 18)
        for series in SERIES.values():
            if series.peer.name == "perftest":
                words = series.peer.client
                self.assertEqual(words[words.index("-u") + 1], str(TIMEOUT))

    def test_sizes_depths_and_queue_pairs_are_equal(self):
        for series in SERIES.values():
            if series.peer.name != "perftest" or "-t" not in series.peer.client:
                continue
            for ours, theirs in (("--size", "-s"), ("--qps", "-q"), ("--tx-depth", "-t"), ("--signal-every", "-Q"),
                                 ("--mtu", "-m"), ("--gid-index", "-x")):
                a, b = series.ours, series.peer.client
                self.assertEqual(a[a.index(ours) + 1], b[b.index(theirs) + 1], (series.name, ours))


class CommandLine(unittest.TestCase):
    def run_cli(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(list(arguments))
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue(), err.getvalue()

    def test_the_list_names_cases_and_both_commands(self):
        code, out, _ = self.run_cli("--list", "--cases", "perftest/write_bw/*")
        self.assertEqual(code, 0)
        self.assertEqual(sum(line.startswith("perftest/") for line in out.splitlines()), 4)
        self.assertIn("    ib_write_bw -d rxe0", out)
        self.assertIn("    fabbench bw node-a node-b --op write", out)

    def test_a_pattern_keeps_single_metrics(self):
        chosen = cli.choose(list(SERIES.values()), ["*/send_lat/*/p99"])
        self.assertEqual([(s.name, s.metrics) for s in chosen], [("send_lat/8B", (P99,))])
        self.assertEqual(cli.choose(list(SERIES.values()), ["*send_lat*"])[0].metrics, (P50, P99))
        both = cli.choose(list(SERIES.values()), ["iperf3/*", "perftest/write_bw/1MiB/*"])
        self.assertEqual([s.name for s in both], ["write_bw/1MiB", "tcp_stream/64KiB"])

    def test_wrong_usage_is_refused(self):
        for arguments in (("--cases", "nothing"), ("--rounds", "0"), ("--nonsense",)):
            self.assertEqual(self.run_cli(*arguments)[0], 2, arguments)

    def test_a_missing_binary_is_named(self):
        code, _, err = self.run_cli("--binary", "/nonexistent/fabbench")
        self.assertEqual(code, 3)
        self.assertIn("cargo build --release", err)

    def test_exit_codes_follow_what_was_found(self):
        series = SERIES["write_bw/64KiB"]

        def told(ours, left_out=()):
            found = rounds.collect(Counting(ours=[ours], theirs=[100], control=[100]), series.metrics, Limits(6, 1e9))
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
                code = cli.tell(rounds.judge(series, "6.06", found), list(left_out), {"perftest": "6.06"}, Path(folder) / "x")
            return code, out.getvalue()

        self.assertEqual(told(100)[0], 0)
        self.assertEqual(told(50)[0], 1)
        code, out = told(100, ["atomic_lat: no result"])
        self.assertEqual(code, 3)
        self.assertIn("not measured: atomic_lat", out)
        self.assertIn("perftest 6.06", out)
