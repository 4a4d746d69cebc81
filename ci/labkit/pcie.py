"""A guest's PCIe as a GPU server has it: two NUMA nodes, a switch, displays as stand-ins for GPUs.

    root complex, NUMA node 0 --+-- root port -- switch --+-- NIC of rail 0
                                |                         +-- display: PIX to rail 0
                                +-- root port -- display: PHB
                                +-- root port -- NIC of rail 1
                                +-- root port -- NIC for ssh
    root complex, NUMA node 0 ----- root port -- display: NODE
    root complex, NUMA node 1 ----- root port -- display: SYS
"""

STAND_IN = "bochs-display"
"""Vendor and device 1234:1111, class 0380."""

NIC_BUSES = ("plug0", "plug1", "plug2")
"""Where rail 0, rail 1 and the NIC for ssh are plugged, in the order of their names in the guest."""


def topology():
    """QEMU options for bridges and stand-ins."""
    ports = ("switch", "near", "plug1", "plug2")
    return [
        *complex_on("complex0", bus=0x40, numa=0, ports=ports),
        *("-device", "x3130-upstream,id=up,bus=switch"),
        *("-device", "xio3130-downstream,id=plug0,bus=up,chassis=100"),
        *("-device", "xio3130-downstream,id=beside,bus=up,chassis=101"),
        *complex_on("complex1", bus=0x60, numa=0, ports=("same-node",)),
        *complex_on("complex2", bus=0x80, numa=1, ports=("other-node",)),
        *(word for bus in ("beside", "near", "same-node", "other-node") for word in ("-device", f"{STAND_IN},bus={bus}")),
    ]


def complex_on(name, bus, numa, ports):
    """A root complex at a bus number, with root ports."""
    options = ["-device", f"pxb-pcie,id={name},bus_nr={bus},numa_node={numa},bus=pcie.0"]
    for place, port in enumerate(ports):
        options += ["-device", f"pcie-root-port,id={port},bus={name},chassis={bus + place}"]
    return options


def machine(mem):
    """QEMU options for two sockets with half the memory (MiB) each."""
    options = ["-smp", "2,sockets=2,cores=1,threads=1", "-m", str(mem // 2 * 2)]
    for node in (0, 1):
        options += ["-object", f"memory-backend-ram,id=ram{node},size={mem // 2}M"]
        options += ["-numa", f"node,nodeid={node},cpus={node},memdev=ram{node}"]
    return options
