"""What is compared: pairs of commands with equal parameters, and the figures taken from them."""

from dataclasses import dataclass, field
from typing import Callable, Optional

from . import parse

DEPTH = 128
MTU = 4096
GID_INDEX = 1
TIMEOUT = 18
"""RC acknowledge time-out exponent of both sides: with 14 a long queue has panicked a guest."""

LATENCY_SIZE = 8
ROUND_TRIPS = 1000
"""Of perftest, which gives percentiles for a count only; ours go by time."""

SIZES = (("64B", 64), ("4KiB", 4096), ("64KiB", 65536), ("1MiB", 1 << 20))
WARMUP_S = 1
WINDOW_S = 2

Parser = Callable[[str], Optional[parse.Figures]]


@dataclass(frozen=True)
class Peer:
    """How a tool runs: its server on node-b, its client on node-a, where it listens, what it prints."""

    name: str
    server: tuple[str, ...]
    client: tuple[str, ...]
    port: int
    parser: Parser


@dataclass(frozen=True)
class Metric:
    """A figure that is compared."""

    key: str
    unit: str
    more_is_better: bool


P50 = Metric("p50", "us", False)
P99 = Metric("p99", "us", False)
MEAN = Metric("mean", "us", False)
GOODPUT = Metric("goodput", "Mb/s", True)
RATE = Metric("rate", "kmsg/s", True)


@dataclass(frozen=True)
class Series:
    """A measurement of both; every metric is a case of its own."""

    name: str
    ours: tuple[str, ...]
    peer: Peer
    metrics: tuple[Metric, ...]
    needs: tuple[str, ...] = field(default=())
    """Words that the help of our command must hold: what an older fabbench lacks."""
    judged: bool = True
    """False where ranks share CPUs, so that the scheduler is measured: never behind."""

    def cases(self) -> list[str]:
        """Names of its cases."""
        return [f"{self.peer.name}/{self.name}/{metric.key}" for metric in self.metrics]


def all_series(address: str) -> list[Series]:
    """Everything that is compared, against node-b at this address of rail 0."""
    found = [perftest_latency(op, address) for op in ("send", "write", "read", "atomic")]
    for op in ("send", "write", "read"):
        found += [perftest_bandwidth(op, label, size, address) for label, size in SIZES]
    found += [perftest_rate(op, address) for op in ("send", "write")]
    found += [qperf_latency("rc_lat", "send", address), qperf_bandwidth("rc_bw", "send", address)]
    found += [qperf_latency("tcp_lat", None, address), qperf_bandwidth("tcp_bw", None, address)]
    return found + [iperf3_stream(address), sockperf_latency(address)]


OURS_OF = {"atomic": "fetch_add"}
FETCHES = ("read", "atomic")
"""node-a asks, as perftest's client does, so the payload comes from node-b."""


def verbs(command: str, op: str) -> tuple[str, ...]:
    """Our command over RC on rail 0."""
    words = (command, "node-a", "node-b", "--op", OURS_OF.get(op, op), "--device", "rxe0",
             "--mtu", str(MTU), "--gid-index", str(GID_INDEX), "--repeats", "1")
    return words + (("--direction", "b-a") if op in FETCHES else ())


def window() -> tuple[str, ...]:
    """Our warm-up and measured time."""
    return ("--warmup", f"{WARMUP_S}s", "--duration", f"{WINDOW_S}s")


def perftest(program: str, port: int, *more: str) -> tuple[str, ...]:
    """A program of perftest with what all its cases share; -F: no word about the CPU's frequency."""
    return (program, "-d", "rxe0", "-x", str(GID_INDEX), "-m", str(MTU), "-u", str(TIMEOUT),
            "-p", str(port), "-F", *more)


def perftest_pair(program: str, parser: Parser, address: str, *more: str) -> Peer:
    """Server and client with equal words."""
    words = perftest(program, 18515, *more)
    return Peer("perftest", words, words + (address,), 18515, parser)


def perftest_latency(op: str, address: str) -> Series:
    """Eight bytes, a signal a message; perftest gives percentiles for a count of rounds only."""
    size = () if op == "atomic" else ("-s", str(LATENCY_SIZE))
    ours = () if op == "atomic" else ("--size", str(LATENCY_SIZE))
    peer = perftest_pair(f"ib_{op}_lat", parse.perftest_latency, address, "-n", str(ROUND_TRIPS), *size)
    return Series(
        f"{op}_lat/8B", verbs("lat", op) + ours + ("--signal-every", "1") + window(), peer, (P50, P99),
        needs=("fetch_add",) if op == "atomic" else (),
    )


def perftest_bandwidth(op: str, label: str, size: int, address: str, name: str = "", metric: Metric = GOODPUT,
                       qps: int = 1) -> Series:
    """One thread; perftest cuts WARMUP_S off at both ends of -D. Small messages are signalled every
    half queue, large ones (as perftest insists) each."""
    every = 1 if size > 8192 else DEPTH // 2
    inline = () if op == "read" else ("-I", "0")
    peer = perftest_pair(
        f"ib_{op}_bw", parse.perftest_bandwidth, address, "-s", str(size), "-q", str(qps), "-t", str(DEPTH),
        "-Q", str(every), "-D", str(WINDOW_S + 2 * WARMUP_S), "-f", str(WARMUP_S), "--report_gbits", *inline,
    )
    ours = verbs("bw", op) + (
        "--size", str(size), "--qps", str(qps), "--threads", "1", "--tx-depth", str(DEPTH),
        "--signal-every", str(every), "--inline", "0",
    )
    return Series(name or f"{op}_bw/{label}", ours + window(), peer, (metric,))


def perftest_rate(op: str, address: str) -> Series:
    """Messages of eight bytes over four queue pairs, one thread."""
    return perftest_bandwidth(op, "8B", 8, address, f"{op}_rate/8B/4qp", RATE, qps=4)


def qperf(test: str, size: int, address: str) -> Peer:
    """qperf finds its way on RoCE through rdma_cm only; it knows a mean alone."""
    manager = ("-cm1",) if test.startswith("rc_") else ()
    client = ("qperf", address, *manager, "-t", str(WINDOW_S), "-m", str(size), "-un", test)
    return Peer("qperf", ("qperf",), client, 19765, parse.qperf)


def qperf_latency(test: str, op: Optional[str], address: str) -> Series:
    """The mean half round trip."""
    ours = verbs("lat", op) if op else tcp("lat")
    return Series(f"{test}/8B", ours + ("--size", "8") + window(), qperf(test, 8, address), (MEAN,))


def qperf_bandwidth(test: str, op: Optional[str], address: str) -> Series:
    """64 KiB messages, one queue pair or socket."""
    ours = verbs("bw", op) if op else tcp("bw")
    words = ours + ("--size", "65536", "--qps", "1", "--threads", "1") + window()
    return Series(f"{test}/64KiB", words, qperf(test, 65536, address), (GOODPUT,))


def tcp(command: str) -> tuple[str, ...]:
    """Our command over TCP on the netdev of rail 0."""
    return (command, "node-a", "node-b", "--transport", "tcp", "--device", "rxe0", "--repeats", "1")


def iperf3_stream(address: str) -> Series:
    """One stream of 64 KiB writes, the first second left out."""
    client = ("iperf3", "-c", address, "-t", str(WINDOW_S), "-O", str(WARMUP_S), "-l", "65536", "-J")
    peer = Peer("iperf3", ("iperf3", "-s", "-1"), client, 5201, parse.iperf3)
    ours = tcp("bw") + ("--size", "65536", "--qps", "1", "--threads", "1") + window()
    return Series("tcp_stream/64KiB", ours, peer, (GOODPUT,))


def sockperf_latency(address: str) -> Series:
    """Half round trips of 64 bytes."""
    server = ("sockperf", "server", "--tcp", "-i", address, "-p", "11111")
    client = ("sockperf", "ping-pong", "--tcp", "-i", address, "-p", "11111", "-m", "64", "-t", str(WINDOW_S))
    peer = Peer("sockperf", server, client, 11111, parse.sockperf)
    return Series("tcp_lat/64B", tcp("lat") + ("--size", "64") + window(), peer, (P50, P99))
