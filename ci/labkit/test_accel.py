"""The accelerator probe against fake QEMUs: KVM that works, fails, hangs, or ends."""

import os
import tempfile
import time
import types
import unittest
from pathlib import Path
from unittest import mock

from . import accel
from .common import LabError
from .state import start_time

WORKS = "echo 'fabbench-lab: ready probe'; exec sleep 60"
FAILS = "echo 'KVM internal error. Suberror: 1' >&2; exec sleep 60"
HANGS = "exec sleep 60"
ENDS = "echo 'qemu: failed to initialize kvm: Permission denied' >&2; exit 1"


class Probe(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.device = self.folder / "kvm"
        self.device.touch()
        self.kernel = types.SimpleNamespace(release="6.1.0-test", image=self.folder / "vmlinuz")
        patch = mock.patch.dict(os.environ, {"FABBENCH_LAB_QEMU": str(self.folder / "qemu")})
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("FABBENCH_LAB_ACCEL", None)  # restored with the rest

    def fake(self, behaviour):
        """Install a QEMU that notes its arguments and process id, then behaves."""
        script = self.folder / "qemu"
        script.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/calls\necho $$ > {self.folder}/pid\n{behaviour}\n')
        script.chmod(0o755)

    def choose(self, patience=5.0):
        with mock.patch.object(accel, "PROBE_S", patience):
            return accel.choose(self.kernel, self.folder / "initrd", self.folder, str(self.device))

    def assert_ended(self):
        self.assertIsNone(start_time(int((self.folder / "pid").read_text())))

    def test_only_emulated_guests_do_without_what_qemu_gets_wrong(self):
        self.assertIn("Nehalem,-cx16", accel.cpu_options("tcg"))
        self.assertIn("host", accel.cpu_options("kvm"))

    def test_kvm_that_works_is_used(self):
        self.fake(WORKS)
        self.assertEqual(self.choose()[0], "kvm")
        self.assertIn("-accel kvm", (self.folder / "calls").read_text())
        self.assert_ended()

    def test_kvm_that_opens_and_fails_is_not_waited_for(self):
        self.fake(FAILS)
        begun = time.monotonic()
        chosen, reason = self.choose()
        self.assertEqual(chosen, "tcg")
        self.assertIn("KVM internal error", reason)
        self.assertLess(time.monotonic() - begun, 4.0)
        self.assert_ended()

    def test_kvm_that_hangs_is_given_up(self):
        self.fake(HANGS)
        chosen, reason = self.choose(patience=0.5)
        self.assertEqual(chosen, "tcg")
        self.assertIn("within 0.5 s", reason)
        self.assert_ended()

    def test_qemu_that_ends_is_quoted(self):
        self.fake(ENDS)
        chosen, reason = self.choose()
        self.assertEqual(chosen, "tcg")
        self.assertIn("Permission denied", reason)

    def test_answer_is_remembered_until_qemu_changes(self):
        self.fake(WORKS)
        self.choose()
        self.assertIn("remembered", self.choose()[1])
        self.assertEqual(len((self.folder / "calls").read_text().splitlines()), 1)
        self.fake(FAILS)
        self.assertEqual(self.choose()[0], "tcg")

    def test_without_a_usable_device_nothing_is_started(self):
        self.fake(WORKS)
        self.device.unlink()
        self.assertEqual(self.choose()[0], "tcg")
        self.assertFalse((self.folder / "calls").exists())

    def test_environment_decides_without_a_probe(self):
        self.fake(FAILS)
        with mock.patch.dict(os.environ, {"FABBENCH_LAB_ACCEL": "kvm"}):
            self.assertEqual(self.choose()[0], "kvm")
        with mock.patch.dict(os.environ, {"FABBENCH_LAB_ACCEL": "hvf"}):
            self.assertRaisesRegex(LabError, "kvm, tcg", self.choose)
        self.assertFalse((self.folder / "calls").exists())
