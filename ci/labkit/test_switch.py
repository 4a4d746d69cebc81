"""The frame switch, as guests see it: a process behind unix sockets."""

import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from . import switch

A, B, C = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))
EVERYBODY = b"\xff" * 6


def frame(to, sender, payload=b"", size=60):
    """An Ethernet frame on the wire to the switch."""
    body = (to + sender + b"\x08\x00" + payload).ljust(size, b".")
    return struct.pack(">I", len(body)) + body


class Nic:
    """One end of a port."""

    def __init__(self, folder, name):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(f"{folder}/{name}")
        self.sock.settimeout(10)

    def exactly(self, count):
        data = bytearray()
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def receive(self):
        return self.exactly(struct.unpack(">I", self.exactly(4))[0])

    def nothing_for(self, seconds):
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b"never"
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(10)


class SwitchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.process = subprocess.Popen([sys.executable, "-B", switch.__file__, self.folder, "a", "b", "c"])
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.terminate)
        deadline = time.monotonic() + 10
        while not Path(self.folder, "c.1").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # between bind and listen
        self.a, self.b, self.c = (self.nic(f"{name}.0") for name in "abc")
        for nic, address in ((self.a, A), (self.b, B), (self.c, C)):
            nic.sock.sendall(frame(EVERYBODY, address))
        for nic in (self.a, self.b, self.c):
            nic.receive(), nic.receive()

    def nic(self, name):
        nic = Nic(self.folder, name)
        self.addCleanup(nic.sock.close)
        return nic

    def set(self, port, **faults):
        return switch.ask(self.folder, {"op": "set", "port": port, **faults})

    def counts(self, port):
        return switch.ask(self.folder, {"op": "ports"})[port]["sent"]

    def test_known_destinations_get_their_frames_alone(self):
        self.a.sock.sendall(frame(B, A, b"one") + frame(C, A, b"two") + frame(B, A, b"three", 9014))
        self.assertEqual(self.b.receive()[14:17], b"one")
        self.assertEqual(len(self.b.receive()), 9014)
        self.assertEqual(self.c.receive()[14:17], b"two")
        self.assertTrue(self.c.nothing_for(0.2))

    def test_rails_do_not_meet(self):
        other = self.nic("b.1")
        self.a.sock.sendall(frame(EVERYBODY, A))
        self.b.receive(), self.c.receive()
        self.assertTrue(other.nothing_for(0.2))

    def test_a_frame_in_pieces_is_put_together(self):
        for byte in frame(B, A, b"slow"):
            self.a.sock.sendall(bytes([byte]))
        self.assertEqual(self.b.receive()[14:18], b"slow")

    def test_drop_counts_and_ends(self):
        self.set("a/0", drop=True)
        self.a.sock.sendall(frame(B, A) * 7)
        self.assertTrue(self.b.nothing_for(0.2))
        self.assertEqual(self.counts("a/0")["dropped"], 7)
        self.set("a/0", drop=False)
        self.a.sock.sendall(frame(B, A, b"back"))
        self.assertEqual(self.b.receive()[14:18], b"back")

    def test_loss_takes_its_share_and_accounts_for_every_frame(self):
        before = self.counts("a/0")["frames"]
        self.set("a/0", loss=0.25)
        self.a.sock.sendall(frame(B, A) * 4000)
        deadline = time.monotonic() + 5
        while True:
            sent = self.counts("a/0")
            passed = sent["frames"] - before
            if passed + sent["lost"] == 4000 or time.monotonic() > deadline:
                break
        self.assertEqual(passed + sent["lost"], 4000)
        self.assertTrue(800 < sent["lost"] < 1200, sent)
        for _ in range(passed):
            self.b.receive()
        self.assertTrue(self.b.nothing_for(0.2))

    def test_delay_keeps_the_order(self):
        self.set("a/0", delay_ms=150)
        begun = time.monotonic()
        self.a.sock.sendall(b"".join(frame(B, A, bytes([n])) for n in range(20)))
        order = [self.b.receive()[14] for _ in range(20)]
        self.assertEqual(order, list(range(20)))
        self.assertGreaterEqual(time.monotonic() - begun, 0.15)

    def test_a_slow_receiver_loses_nothing(self):
        frames = [frame(B, A, struct.pack(">I", n), 60 + n * 37 % 4000) for n in range(3000)]
        sender = threading.Thread(target=self.a.sock.sendall, args=(b"".join(frames),), daemon=True)
        sender.start()
        time.sleep(1.0)
        self.assertTrue(sender.is_alive(), "the sender should have to wait")
        for expected in frames:
            self.assertEqual(self.b.receive(), expected[4:])
        sender.join(10)
        self.assertEqual(self.counts("a/0")["stalled"], 0)

    def test_a_deaf_receiver_does_not_hold_the_others(self):
        flood = frame(B, A, b"", 4000) * 1000 + frame(C, A, b"at last")
        sender = threading.Thread(target=self.a.sock.sendall, args=(flood,), daemon=True)
        sender.start()
        self.c.sock.settimeout(20)
        self.assertEqual(self.c.receive()[14:21], b"at last")
        sender.join(10)
        self.assertGreater(self.counts("b/0")["stalled"], 0)
        kept = 1000 - self.counts("b/0")["stalled"]
        for _ in range(kept):  # what it had been given is whole
            self.assertEqual(len(self.b.receive()), 4000)
        self.assertTrue(self.b.nothing_for(0.2))
        self.c.sock.sendall(frame(B, C, b"again"))
        self.assertEqual(self.b.receive()[14:19], b"again")

    def test_a_broken_stream_ends_its_own_port_only(self):
        self.a.sock.sendall(b"\xff" * 100)
        self.assertEqual(self.a.sock.recv(1), b"")
        self.b.sock.sendall(frame(C, B, b"on"))
        self.assertEqual(self.c.receive()[14:16], b"on")

    def test_nonsense_on_the_control_socket_is_survived(self):
        with self.assertRaises(ValueError):
            switch.ask(self.folder, {"op": "set", "port": "nobody/0"})
        self.assertIn("a/0", switch.ask(self.folder, {"op": "ports"}))
