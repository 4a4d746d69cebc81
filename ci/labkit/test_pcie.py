"""The PCIe shape: what hangs where, and that ordinary guests have none of it."""

import types
import unittest
from pathlib import Path
from unittest import mock

from . import accel, pcie, vm

PLAIN = {"accel": "tcg", "smp": 1, "mem": 512, "port": 2222, "pcie_switch": False}


def options(**wish):
    """Values of QEMU's options for a node, by option."""
    lab = types.SimpleNamespace(dir=Path("/lab"), run_dir=Path("/run/lab"), share=Path("/share"))
    kernel = types.SimpleNamespace(image=Path("/vmlinuz"))
    with mock.patch.object(accel, "qemu_binary", lambda: "qemu"):
        words = vm.command(lab, kernel, 0, {**PLAIN, **wish})
    found = {}
    for name, value in zip(words, words[1:]):
        if name.startswith("-"):
            found.setdefault(name, []).append(value)
    return found


def plugs(devices):
    """id (else driver) and bus of each device that names a bus."""
    parts = [dict(part.split("=", 1) for part in device.split(",") if "=" in part) for device in devices]
    drivers = [device.split(",")[0] for device in devices]
    return [(part.get("id", driver), part["bus"]) for driver, part in zip(drivers, parts) if "bus" in part]


class Shape(unittest.TestCase):
    def test_every_device_is_plugged_into_a_bus_that_stands_before_it_and_no_port_twice(self):
        placed = plugs(options(pcie_switch=True)["-device"])
        buses = {"pcie.0"}
        for name, bus in placed:
            self.assertIn(bus, buses, name)
            buses.add(name)
        ports = [bus for _, bus in placed if bus != "pcie.0" and not bus.startswith("complex") and bus != "up"]
        self.assertEqual(len(ports), len(set(ports)))

    def test_rail_0_is_beside_a_stand_in_and_each_numa_node_has_one(self):
        placed = plugs(options(pcie_switch=True)["-device"])
        above = dict(placed)
        self.assertEqual(above["nic0"], "plug0")
        self.assertEqual((above["plug0"], above["beside"]), ("up", "up"))
        displays = [bus for name, bus in placed if name == pcie.STAND_IN]
        self.assertEqual(displays, ["beside", "near", "same-node", "other-node"])
        self.assertEqual(above["other-node"], "complex2")

    def test_memory_and_processors_are_halved_between_the_nodes(self):
        found = options(pcie_switch=True)
        self.assertEqual(found["-m"], ["512"])
        self.assertEqual(found["-numa"], [f"node,nodeid={n},cpus={n},memdev=ram{n}" for n in (0, 1)])
        self.assertTrue(all("size=256M" in memory for memory in found["-object"]))
        self.assertNotIn("-bios", found)

    def test_an_ordinary_guest_has_no_bridge_and_no_display(self):
        found = options()
        self.assertNotIn("-numa", found)
        words = " ".join(found["-device"])
        for driver in ("pxb", "pcie-root-port", "x3130", pcie.STAND_IN):
            self.assertNotIn(driver, words)
        self.assertEqual(found["-smp"], ["1"])
