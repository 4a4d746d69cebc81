"""The lab as this benchmark needs it: run a tool between its nodes, and clean up."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Optional

from . import gloo, openmpi, parse
from .cases import Peer

REPO = Path(__file__).resolve().parent.parent.parent
LAB = REPO / "ci" / "lab"
LIMIT_S = 100
"""Longest time of one measurement, start to end."""

ATTEMPTS = 3


class PeerError(Exception):
    """A failure told as one sentence that ends with the next step."""


def note(text: str) -> None:
    """Progress goes to stderr."""
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


class Guests:
    """Two nodes, with fabbench of this build on them."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self.was_up = self.well()
        self.restarts = 0
        self.ssh = ""

    def start(self) -> None:
        """Bring them up unless they are."""
        if not self.was_up:
            self.lab("up", "2", limit_s=300)
        self.lab("push", str(self.binary))
        config = self.lab("ssh-config").strip()
        self.ssh = shlex.join(["ssh", "-F", config])

    def finish(self) -> None:
        """Leave them as they were found."""
        if not self.was_up:
            subprocess.run([LAB, "down"], check=False, stdout=subprocess.DEVNULL, timeout=60)

    def well(self) -> bool:
        """Whether every node answers and no kernel died."""
        done = subprocess.run([LAB, "status"], check=False, capture_output=True, timeout=60)
        return done.returncode == 0

    def revive(self) -> None:
        """Start anew when a guest died; the measurement under way is repeated."""
        if self.well():
            return
        self.restarts += 1
        note("a guest died or does not answer: starting the lab anew")
        self.lab("up", "2", "--fresh", limit_s=300)
        self.start()

    def lab(self, *words: str, limit_s: float = 60) -> str:
        """A command of ci/lab that must succeed."""
        done = subprocess.run([LAB, *words], check=False, capture_output=True, text=True, timeout=limit_s)
        if done.returncode != 0:
            raise PeerError(f"ci/lab {' '.join(words)}: {done.stderr.strip()} (ci/lab status tells more)")
        return done.stdout

    def in_node(self, node: str, line: str, limit_s: float = LIMIT_S) -> "subprocess.CompletedProcess[str]":
        """A shell line in a guest."""
        return subprocess.run([LAB, "run", node, line], check=False, capture_output=True, text=True, timeout=limit_s)

    def ours(self, words: tuple[str, ...]) -> Optional[parse.Figures]:
        """One measurement of fabbench: the coordinator here, an agent in each guest."""
        command = [str(self.binary), *words, "--json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "FABBENCH_SSH": self.ssh})
        figures = parse.fabbench(done.stdout) if done.returncode in (0, 1) else None
        if figures is None:
            note(f"no result of fabbench {shlex.join(words)}: {last_line(done.stderr)}")
        return figures

    def theirs(self, peer: Peer) -> Optional[parse.Figures]:
        """One measurement of a peer."""
        server = self.serve(peer) if peer.server else None
        try:
            done = self.in_node("node-a", f"timeout {LIMIT_S - 30} {shlex.join(peer.client)}")
        finally:
            if server:
                self.end(peer, server)
        figures = peer.parser(done.stdout)
        if figures is None:
            note(f"no result of {shlex.join(peer.client)}: {last_line(done.stderr or done.stdout)}")
        return figures

    def serve(self, peer: Peer) -> "subprocess.Popen[bytes]":
        """Start the server and wait until it listens."""
        line = f"timeout {LIMIT_S - 20} {shlex.join(peer.server)} >/tmp/peer.log 2>&1"
        server = subprocess.Popen([LAB, "run", "node-b", line], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        listens = f"ss -Hltn sport = :{peer.port} | grep -q ."
        wait = f"i=0; until {listens}; do i=$((i+1)); [ $i -lt 50 ] || exit 1; sleep 0.1; done"
        if self.in_node("node-b", wait).returncode != 0:
            said = self.in_node("node-b", "tail -n 1 /tmp/peer.log").stdout.strip()
            note(f"{peer.server[0]} does not listen on node-b: {said}")
        return server

    def end(self, peer: Peer, server: "subprocess.Popen[bytes]") -> None:
        """End the server in its guest, then the ssh that held it."""
        self.in_node("node-b", f"pkill -x {Path(peer.server[0]).name[:15]}; true")
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def versions(self) -> dict[str, str]:
        """Of the peers' packages."""
        names = ("perftest", "qperf", "iperf3", "sockperf")
        done = self.in_node("node-a", f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(names)}")
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        return {**found, "openmpi": openmpi.VERSION, "gloo": gloo.version()}

    def supports(self, command: str, needs: tuple[str, ...]) -> bool:
        """Whether our command's help holds these words."""
        text = subprocess.run([str(self.binary), command, "--help"], check=False, capture_output=True, text=True,
                              timeout=10).stdout
        return all(word in text for word in needs)

    def measured(self, measure: Callable[[], Optional[parse.Figures]], what: str) -> parse.Figures:
        """Repeats a measurement without result; a dead guest is replaced meanwhile."""
        for _ in range(ATTEMPTS):
            try:
                figures = measure()
            except subprocess.TimeoutExpired:
                note(f"{what}: nothing after {LIMIT_S} s")
                figures = None
            if figures is not None:
                return figures
            self.revive()
            time.sleep(1)
        raise PeerError(f"{what}: no result in {ATTEMPTS} attempts: run the command by hand in the lab")


def last_line(text: str) -> str:
    """What was said last."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
