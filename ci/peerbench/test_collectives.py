"""Collectives: equal on both sides, and read as printed."""

import itertools
import json
import unittest

from . import parse, rounds
from .collectives import RANKS, collective_series

SERIES = {one.name: one for one in collective_series() if one.peer.name == "openmpi"}
GLOO = {one.name: one for one in collective_series() if one.peer.name == "gloo"}


class Cases(unittest.TestCase):
    def test_everything_asked_for_is_compared(self):
        for transport, algorithm, ranks, size in itertools.product(
                ("tcp", "rc"), ("ring", "rhd"), RANKS, ("8B", "4KiB", "64KiB", "1MiB", "16MiB")):
            for peer in (SERIES, GLOO):
                self.assertIn(f"allreduce_{transport}/{algorithm}/n{ranks}/{size}", peer)

    def test_ranks_bytes_and_runs_are_equal(self):
        for one in SERIES.values():
            ours, theirs = one.ours, one.peer.client
            hosts = [word for word in ours if word.startswith("node-")]
            self.assertEqual(str(len(hosts)), theirs[theirs.index("-n") + 1], one.name)
            slots = theirs[theirs.index("--host") + 1].split(",")
            self.assertEqual(sum(int(slot.rsplit(":", 1)[1]) for slot in slots), len(hosts))
            size, warmups, runs = theirs[-3:]
            for flag, value in (("-b", size), ("-e", size), ("-w", warmups), ("-n", runs)):
                self.assertEqual(ours[ours.index(flag) + 1], value, (one.name, flag))

    def test_gloo_has_the_same_ranks_in_the_same_places(self):
        for one in GLOO.values():
            hosts = [word.split(",")[0] for word in one.ours if word.startswith("node-")]
            here, there = one.peer.client, one.peer.server
            for words, node in ((here, "node-a"), (there, "node-b")):
                ranks = [int(rank) for rank in words[4].split(",")]
                self.assertEqual(ranks, [rank for rank, host in enumerate(hosts) if host == node], one.name)
                self.assertEqual((int(words[5]), words[3]), (len(hosts), one.ours[one.ours.index("--algo") + 1]))
                for flag, value in zip(("-b", "-w", "-n"), words[8:]):
                    self.assertEqual(one.ours[one.ours.index(flag) + 1], value)

    def test_the_algorithm_is_forced_and_shared_memory_is_not_used(self):
        words = SERIES["allreduce_tcp/rhd/n3/1MiB"].peer.client
        self.assertEqual(words[words.index("coll_tuned_allreduce_algorithm") + 1], "6")
        self.assertEqual(words[words.index("btl") + 1], "tcp,self")
        rc = SERIES["allreduce_rc/ring/n2/8B"].peer.client
        self.assertIn("UCX_TLS=rc_v,self", rc)
        self.assertEqual(rc[rc.index("opal_common_ucx_devices") + 1], "any")


    def test_ranks_that_share_a_cpu_are_not_judged(self):
        for name, judged in (("allreduce_tcp/ring/n2/8B", True), ("allreduce_tcp/ring/n3/8B", False)):
            self.assertEqual(SERIES[name].judged, judged)
            found = rounds.collect(lambda _: {"time": 1.0}, SERIES[name].metrics, rounds.Limits(6, 1e9))
            found["ours"] = [{"time": 9.0}] * len(found["ours"])
            results = rounds.corrected(rounds.judge(SERIES[name], "5.0.11", found))
            self.assertEqual(results[0].behind, judged, name)


class Output(unittest.TestCase):
    def test_the_driver_and_what_is_no_result(self):
        self.assertEqual(parse.all_reduce("mean of the slowest rank: 412.700 us\n"), {"time": 412.7})
        for text in ("", "4 elements wrong\n", "mean of the slowest rank: nan us\n", "mean of the slowest rank: 0.000 us"):
            self.assertIsNone(parse.all_reduce(text), text)

    def test_fabbench_by_its_slowest_rank_and_only_when_right(self):
        def report(wrong):
            measured = {"op": "all_reduce", "elements_wrong": wrong, "collective": {"time_ns": {"max": 412_700.0}}}
            return json.dumps({"measurements": [measured, {}]})

        self.assertEqual(parse.fabbench(report(0)), {"time": 412.7})
        places = [{"elements_wrong": 0, "collective": {"in_place": place, "time_ns": {"max": ns}}}
                  for place, ns in ((False, 9e3), (True, 7e3))]
        both = parse.fabbench(json.dumps({"measurements": places}))
        self.assertEqual(both, {"time": 9, "time_in_place": 7})
        self.assertEqual(parse.all_reduce_in_place("mean of the slowest rank: 7.0 us\n"), {"time_in_place": 7})
        self.assertIsNone(parse.fabbench(report(1)))
        self.assertIsNone(parse.fabbench(report(None)))
