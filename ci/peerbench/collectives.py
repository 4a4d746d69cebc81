"""All-reduce beside Open MPI and Gloo: same ranks, placement, bytes, iterations and algorithm."""

import itertools
from dataclasses import dataclass

from . import gloo, openmpi, parse
from .cases import Metric, Peer, Series

TIME = Metric("time", "us", False)
TIME_IN_PLACE = Metric("time_in_place", "us", False)
"""Gloo's class API knows no other."""

SIZES = (("8B", 8, 200), ("4KiB", 4096, 200), ("64KiB", 65536, 50), ("1MiB", 1 << 20, 20), ("16MiB", 16 << 20, 5))
"""Label, bytes, timed runs."""

RANKS = (2, 3, 4)
NODES = (("node-a", "192.168.100.1"), ("node-b", "192.168.100.2"))
"""Ranks stand on them in turns: 2 has one on each, 3 and 4 share CPUs and say nothing of speed."""

WARMUPS = 3

ALGORITHMS = (("ring", "4"), ("rhd", "6"))
"""Ours, and what forces the same in coll_tuned: ring, Rabenseifner."""

TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0")
"""Without shared memory, which two ranks of a host would use otherwise."""

RC = ("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any",
      "-x", "UCX_NET_DEVICES=rxe0:1", "-x", "UCX_TLS=rc_v,self", "-x", "UCX_IB_GID_INDEX=1")
"""Open MPI takes UCX on mlx devices only, unless told; rxe is none."""


def collective_series() -> list[Series]:
    """Every transport, number of ranks, algorithm and size."""
    points = itertools.product(("tcp", "rc"), RANKS, ALGORITHMS, SIZES)
    points = [Point(transport, ranks, *algorithm, *size) for transport, ranks, algorithm, size in points]
    return [beside_openmpi(point) for point in points] + [beside_gloo(point) for point in points]


@dataclass(frozen=True)
class Point:
    """What both sides do."""

    transport: str
    ranks: int
    ours: str
    theirs: str
    label: str
    size: int
    runs: int

    def series(self, nodes: tuple[tuple[str, str], ...], peer: Peer, metric: Metric) -> Series:
        """With our command; the ranks stand on these nodes in turns."""
        places = [nodes[rank % len(nodes)] for rank in range(self.ranks)]
        hosts = tuple(f"{name},addr={address}" for name, address in places)
        command = ("allreduce", *hosts, "--transport", self.transport, "--algo", self.ours, "-b", str(self.size),
                   "-e", str(self.size), "-n", str(self.runs), "-w", str(WARMUPS), "--type", "f32")
        # Without verbs allreduce has no devices to choose from.
        needs = ("--device",) if self.transport == "rc" else ()
        if self.transport == "rc":
            command += ("--device", "rxe0")
        name = f"allreduce_{self.transport}/{self.ours}/n{self.ranks}/{self.label}"
        return Series(name, command, peer, (metric,), needs, judged=self.ranks <= len(nodes))


def beside_openmpi(point: Point) -> Series:
    """Its mpirun starts everything from node-a."""
    slots = [sum(rank % len(NODES) == node for rank in range(point.ranks)) for node in range(len(NODES))]
    client = (
        str(openmpi.BIN / "mpirun"), "--allow-run-as-root", "-n", str(point.ranks),
        "--host", ",".join(f"{address}:{count}" for (_, address), count in zip(NODES, slots)),
        "--map-by", "node:OVERSUBSCRIBE", "--bind-to", "none", "--mca", "plm_ssh_no_tree_spawn", "1",
        *(TCP if point.transport == "tcp" else RC),
        "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", point.theirs,
        str(openmpi.DRIVER), str(point.size), str(WARMUPS), str(point.runs),
    )
    return point.series(NODES, Peer("openmpi", (), client, 0, parse.all_reduce), TIME)


GLOO_PORT = 7480


def beside_gloo(point: Point) -> Series:
    """Even ranks on node-b, where the store of rank 0 listens, odd ones on node-a."""
    device = ("tcp", "eth0") if point.transport == "tcp" else ("ibverbs", "rxe0")
    root = NODES[1][1]

    def driver(first: int) -> tuple[str, ...]:
        ranks = ",".join(str(rank) for rank in range(first, point.ranks, 2))
        return (str(gloo.DRIVER), *device, point.ours, ranks, str(point.ranks), root, str(GLOO_PORT),
                str(point.size), str(WARMUPS), str(point.runs))

    peer = Peer("gloo", driver(0), driver(1), GLOO_PORT, parse.all_reduce_in_place)
    return point.series(NODES[::-1], peer, TIME_IN_PLACE)
