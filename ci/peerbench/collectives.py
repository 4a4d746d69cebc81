"""All-reduce beside Open MPI: same ranks, placement, bytes, iterations and algorithm."""

from . import openmpi, parse
from .cases import Metric, Peer, Series

TIME = Metric("time", "us", False)

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
    return [
        beside_openmpi(transport, ranks, ours, theirs, label, size, runs)
        for transport in ("tcp", "rc")
        for ranks in RANKS
        for ours, theirs in ALGORITHMS
        for label, size, runs in SIZES
    ]


def beside_openmpi(transport: str, ranks: int, ours: str, theirs: str, label: str, size: int, runs: int) -> Series:
    """One of them; what an older fabbench lacks of transports is in its help."""
    places = [NODES[rank % len(NODES)] for rank in range(ranks)]
    hosts = tuple(f"{name},addr={address}" for name, address in places)
    command = ("allreduce", *hosts, "--transport", transport, "--algo", ours, "-b", str(size), "-e", str(size),
               "-n", str(runs), "-w", str(WARMUPS), "--type", "f32")
    if transport == "rc":
        command += ("--device", "rxe0")
    slots = {name: sum(place[0] == name for place in places) for name, _ in NODES}
    client = (
        str(openmpi.BIN / "mpirun"), "--allow-run-as-root", "-n", str(ranks),
        "--host", ",".join(f"{address}:{slots[name]}" for name, address in NODES),
        "--map-by", "node:OVERSUBSCRIBE", "--bind-to", "none", "--mca", "plm_ssh_no_tree_spawn", "1",
        *(TCP if transport == "tcp" else RC),
        "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", theirs,
        str(openmpi.DRIVER), str(size), str(WARMUPS), str(runs),
    )
    peer = Peer("openmpi", (), client, 0, parse.all_reduce)
    name = f"allreduce_{transport}/{ours}/n{ranks}/{label}"
    # Without verbs allreduce has no devices to choose from.
    needs = ("--device",) if transport == "rc" else ()
    return Series(name, command, peer, (TIME,), needs, judged=ranks <= len(NODES))
