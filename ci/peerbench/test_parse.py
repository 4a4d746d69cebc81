"""Output of the tools as they print it."""

import json
import unittest

from . import parse

WRITE_LAT = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          551.07         4032.77      566.61      	       598.30      	201.27		1204.91 		3512.20
---------------------------------------------------------------------------------------
"""
WRITE_BW = """
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      300              0.00               0.078643            0.000150
"""
SOCKPERF = """sockperf: [Valid Duration] RunTime=1.950 sec; SentMessages=1000; ReceivedMessages=1000
sockperf: ====> avg-latency=912.740 (std-dev=10.1)
sockperf: Summary: Latency is 912.740 usec
sockperf: ---> percentile 99.900 = 3519.343
sockperf: ---> percentile 99.000 = 1351.220
sockperf: ---> percentile 50.000 =  890.115
"""


def report(**measured):
    return json.dumps({"measurements": [measured]})


class Tools(unittest.TestCase):
    def test_perftest(self):
        self.assertEqual(parse.perftest_latency(WRITE_LAT), {"p50": 566.61, "mean": 598.30, "p99": 1204.91})
        found = parse.perftest_bandwidth(WRITE_BW)
        self.assertAlmostEqual(found["goodput"], 78.643)
        self.assertAlmostEqual(found["rate"], 0.150)

    def test_what_perftest_prints_without_a_clock_is_no_result(self):
        for figure in ("0.00", "inf", "nan", "-nan"):
            self.assertIsNone(parse.perftest_bandwidth(WRITE_BW.replace("0.078643", figure)), figure)
            self.assertIsNone(parse.perftest_latency(WRITE_LAT.replace("566.61", figure)), figure)

    def test_what_is_no_output_is_no_result(self):
        for parser in (parse.perftest_latency, parse.perftest_bandwidth, parse.qperf, parse.iperf3,
                       parse.sockperf, parse.fabbench):
            for text in ("", "Couldn't connect to node-b:18515\n", "{}", "[]"):
                self.assertIsNone(parser(text), (parser.__name__, text))

    def test_qperf(self):
        self.assertEqual(parse.qperf("tcp_lat:\n    latency  =  2.47 ms\n"), {"mean": 2470})
        self.assertEqual(parse.qperf("rc_bw:\n    bw  =  8.22 MB/sec\n"), {"goodput": 65.76})
        both = "ud_bw:\n    send_bw  =  9 MB/sec\n    recv_bw  =  8 MB/sec\n"
        self.assertEqual(parse.qperf(both), {"goodput": 64})

    def test_iperf3_by_the_receiver(self):
        end = {"sum_sent": {"bits_per_second": 3e8}, "sum_received": {"bits_per_second": 2.5e8}}
        self.assertEqual(parse.iperf3(json.dumps({"end": end})), {"goodput": 250})

    def test_sockperf(self):
        self.assertEqual(parse.sockperf(SOCKPERF), {"mean": 912.740, "p50": 890.115, "p99": 1351.220})

    def test_fabbench_gives_half_round_trips_and_rates(self):
        latency = {"p50": 800_000, "p99": 1_200_000, "mean": 900_000}
        whole = parse.fabbench(report(op="request_response", latency_ns=latency, is_half_rtt=False))
        self.assertEqual(whole, {"p50": 400, "p99": 600, "mean": 450})
        half = parse.fabbench(report(op="send", latency_ns=latency, is_half_rtt=True))
        self.assertEqual(half, {"p50": 800, "p99": 1200, "mean": 900})
        read = parse.fabbench(report(op="read", latency_ns=latency, is_half_rtt=False))
        self.assertEqual(read, half, "READ is a whole round trip for perftest too")
        flow = parse.fabbench(report(op="write", goodput_bps={"median": 4e7}, messages_per_s={"median": 5000}))
        self.assertEqual(flow, {"goodput": 40, "rate": 5})
