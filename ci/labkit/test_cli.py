"""`ci/lab` with a fake QEMU: failed starts leave nothing, wrong use is explained."""

import contextlib
import io
import os
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from . import cli, initramfs, kernel
from .state import Lab, strays

PANICS = 'echo "Kernel panic - not syncing: no root" > "$serial"; exec sleep 60'
ENDS = 'echo "qemu: no such machine" >&2; exit 1'
SILENT = "exec sleep 60"


class FakeQemu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "image").write_bytes(b"")
        stock = types.SimpleNamespace(release="6.1.0-test", image=self.folder / "image")
        for patch in (
            mock.patch.dict(os.environ, {"FABBENCH_LAB_QEMU": str(self.folder / "qemu"), "FABBENCH_LAB_ACCEL": "tcg"}),
            mock.patch.object(kernel, "fetch_kernel", lambda: stock),
            mock.patch.object(initramfs, "base_image", lambda _: self.folder / "image"),
            mock.patch.object(cli, "READY_S", 3.0),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.lab = Lab(self.folder / "lab")

    def qemu(self, behaviour):
        script = self.folder / "qemu"
        find_serial = 'for word; do case "$word" in file,id=serial,*) serial="${word#*path=}" ;; esac; done'
        script.write_text(f"#!/bin/sh\n{find_serial}\n{behaviour}\n")
        script.chmod(0o755)

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(["--state", str(self.lab.dir), *arguments])
        return code, out.getvalue(), err.getvalue()

    def assert_nothing_left(self):
        self.assertFalse(self.lab.dir.exists() or self.lab.run_dir.exists())
        self.assertEqual(strays(self.lab.run_dir), [])

    def test_a_kernel_that_panics_is_quoted_and_cleaned_up(self):
        self.qemu(PANICS)
        code, _, err = self.call("up")
        self.assertEqual(code, 1)
        self.assertIn("not syncing: no root", err)
        self.assert_nothing_left()

    def test_a_qemu_that_ends_is_quoted_and_cleaned_up(self):
        self.qemu(ENDS)
        code, _, err = self.call("up")
        self.assertEqual(code, 1)
        self.assertIn("no such machine", err)
        self.assert_nothing_left()

    def test_a_guest_that_never_comes_up_is_given_up(self):
        self.qemu(SILENT)
        code, _, err = self.call("up", "3")
        self.assertEqual(code, 1)
        self.assertIn("node-a is not ready in time", err)
        self.assert_nothing_left()

    def test_without_a_lab_commands_say_what_to_do(self):
        for arguments in (["run", "node-a", "true"], ["ssh-config"], ["link"], ["hide", "node-a", "rxe"], ["log", "node-a"]):
            code, out, err = self.call(*arguments)
            self.assertEqual((code, out), (1, ""), arguments)
            self.assertIn("ci/lab up", err)
        self.assertEqual(self.call("status")[0], 1)

    def test_down_is_fine_without_a_lab(self):
        self.assertEqual(self.call("down"), (0, "", ""))
        self.assertEqual(self.call("down"), (0, "", ""))
        self.assert_nothing_left()

    def test_absurd_wishes_are_refused_before_anything_starts(self):
        self.qemu(SILENT)
        for arguments in (["up", "0"], ["up", "1"], ["up", "5"], ["up", "--smp", "0"], ["up", "--mem", "10"],
                          ["up", "0", "--pcie-switch"], ["up", "1", "--pcie-switch", "--smp", "4"]):
            code, _, err = self.call(*arguments)
            self.assertEqual(code, 1, arguments)
            self.assertIn("ci/lab: ", err)
            self.assert_nothing_left()
