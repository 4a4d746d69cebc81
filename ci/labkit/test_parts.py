"""Kernel choice, initramfs archives, process bookkeeping."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from . import initramfs, kernel, state
from .common import LabError


SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")


class KernelChoice(unittest.TestCase):
    def test_debian_takes_the_newest_stock_kernel(self):
        names = [
            "linux-image-amd64", "linux-image-6.9.7-amd64", "linux-image-6.12.9+deb12-amd64-unsigned",
            "linux-image-6.12.9+deb12-amd64", "linux-image-6.12.10+deb12-rt-amd64", "linux-image-6.12.10+deb12-cloud-amd64",
            "linux-image-6.12.9+deb12-amd64-dbg", "linux-image-6.1.0-50-amd64",
        ]
        pattern, _ = kernel.DISTRIBUTIONS["debian"]
        self.assertEqual(kernel.newest_first(names, pattern), [
            "linux-image-6.12.9+deb12-amd64", "linux-image-6.12.9+deb12-amd64-unsigned",
            "linux-image-6.9.7-amd64", "linux-image-6.1.0-50-amd64",
        ])

    def test_ubuntu_takes_the_newest_generic_kernel(self):
        names = ["linux-image-6.8.0-9-generic", "linux-image-unsigned-6.8.0-41-generic", "linux-image-6.8.0-41-lowlatency",
                 "linux-image-generic", "linux-image-6.8.0-41-generic-64k"]
        pattern, _ = kernel.DISTRIBUTIONS["ubuntu"]
        self.assertEqual(kernel.newest_first(names, pattern),
                         ["linux-image-unsigned-6.8.0-41-generic", "linux-image-6.8.0-9-generic"])

    def test_distribution_goes_by_id_then_by_likeness(self):
        for text, answer in (("ID=debian\n", "debian"), ('ID=ubuntu\nID_LIKE=debian\n', "ubuntu"),
                             ('ID=mint\nID_LIKE="ubuntu debian"\n', "ubuntu")):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                self.assertEqual(kernel.distribution(file.name), answer)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("ID=fedora\n")
            file.flush()
            self.assertRaisesRegex(LabError, "fedora", kernel.distribution, file.name)

    def test_package_lists_are_fresh_for_some_days_and_only_with_packages(self):
        with tempfile.TemporaryDirectory() as lists:
            self.assertFalse(kernel.fresh(lists), "no packages in them")
            Path(lists, "x_Packages.lz4").touch()
            self.assertTrue(kernel.fresh(lists))
            self.assertFalse(kernel.fresh(lists, time.time() + 8 * 86400))
            self.assertFalse(kernel.fresh(lists + "/none"))

    def test_a_kernel_is_remembered_for_the_same_lists_while_it_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            memory = Path(folder, "kernel.json")
            self.assertIsNone(kernel.remembered(memory, ["lists", 1]))
            memory.write_text('{"about": ["lists", 1], "kernel": "%s"}' % folder)
            self.assertEqual(kernel.remembered(memory, ["lists", 1]), folder)
            self.assertIsNone(kernel.remembered(memory, ["lists", 2]))
            memory.write_text('{"about": ["lists", 1], "kernel": "%s/gone"}' % folder)
            self.assertIsNone(kernel.remembered(memory, ["lists", 1]))

    def test_ways_to_a_kernel_are_tried_in_order_and_the_last_error_is_told(self):
        def broken(word):
            def way():
                raise LabError(word)
            return way

        self.assertEqual(kernel.first_that_works(broken("old"), lambda: "second", lambda: "third"), "second")
        self.assertRaisesRegex(LabError, "last", kernel.first_that_works, broken("first"), broken("last"))


class Archives(unittest.TestCase):
    def test_two_archives_in_a_row_keep_folders_before_files(self):
        archive = initramfs.Archive()
        archive.file("a/b/file", b"12345", 0o600)
        archive.link("a/link", "b/file")
        entries = list(read_newc(archive.bytes()))
        self.assertEqual([name for name, *_ in entries], ["a", "a/b", "a/b/file", "a/link", "TRAILER!!!"])
        self.assertEqual(entries[2][1:], (0o100600, b"12345"))
        self.assertEqual(entries[3][1:], (0o120777, b"b/file"))

    def test_a_program_that_needs_a_loader_is_noticed(self):
        self.assertTrue(initramfs.needs_loader(Path(shutil.which("env")).read_bytes()))

    def test_a_signature_is_cut_off_and_nothing_else(self):
        signature = b"S" * 300
        signed = b"module" + signature + bytes(8) + struct.pack(">I", 300) + initramfs.SIGNED
        self.assertEqual(initramfs.without_signature(signed), b"module")
        self.assertEqual(initramfs.without_signature(b"module"), b"module")

    def test_module_names_lose_their_compression(self):
        self.assertEqual(initramfs.plain_name(Path("/x/rdma_rxe.ko.xz")), "rdma_rxe.ko")


def read_newc(data):
    """(name, mode, contents) of each entry, by the format's own description."""
    position = 0
    while position < len(data):
        assert data[position : position + 6] == b"070701"
        fields = [int(data[position + 6 + 8 * n : position + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[position + 110 : position + 110 + name_size - 1].decode()
        begin = (position + 110 + name_size + 3) & ~3
        yield name, mode, data[begin : begin + size]
        position = (begin + size + 3) & ~3


class Processes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.lab = state.Lab(folder.name + "/lab")
        self.addCleanup(self.lab.end)

    def spawn(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_process_that_ignores_sigterm_ends_too(self):
        process = self.spawn("sh", "-c", "trap '' TERM; echo set; while :; do sleep 1; done")
        process.stdout.readline()
        state.end_processes([state.identity(process.pid)], patience=0.3)
        self.assertIn(process.wait(5), (-signal.SIGKILL, 0))

    def test_a_later_process_of_the_same_number_is_left_alone(self):
        process = self.spawn("sleep", "60")
        state.end_processes([{"pid": process.pid, "started": state.start_time(process.pid) - 1}])
        self.assertIsNone(process.poll())

    def test_end_finds_what_was_never_recorded_and_removes_all_files(self):
        self.lab.make_folders()
        process = self.spawn(*SLEEPER, "-qmp", f"unix:{self.lab.run_dir}/node-a.qmp")
        bystander = self.spawn(*SLEEPER, f"{self.lab.run_dir}/notes")
        self.lab.end()
        self.assertFalse(state.alive(state.identity(process.pid)))
        self.assertIsNone(bystander.poll())
        self.assertFalse(self.lab.dir.exists() or self.lab.run_dir.exists())

    def test_the_lock_survives_removal_of_the_folder(self):
        order = []

        def second():
            with self.lab.locked():
                order.append("second")
                self.assertTrue(self.lab.dir.exists())

        with self.lab.locked():
            waiter = threading.Thread(target=second)
            waiter.start()
            time.sleep(0.2)
            order.append("first")
            self.lab.end()
        waiter.join(5)
        self.assertEqual(order, ["first", "second"])

    def test_a_socket_folder_of_somebody_else_is_refused(self):
        self.lab.make_folders()
        self.lab.run_dir.chmod(0o777)
        self.assertRaisesRegex(LabError, "private", self.lab.make_folders)
        self.assertEqual(os.stat(self.lab.run_dir).st_mode & 0o777, 0o777)
