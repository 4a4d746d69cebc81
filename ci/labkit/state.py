"""One lab's files and processes: where they are, who may touch them, how they end."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import stat
import time
from pathlib import Path

from .common import REPO, LabError


class Lab:
    """A lab's state folder (target/lab) and the short folder that holds its sockets."""

    def __init__(self, folder=None):
        chosen = folder or os.environ.get("FABBENCH_LAB_STATE") or REPO / "target" / "lab"
        self.dir = Path(chosen).resolve()
        mark = hashlib.sha256(str(self.dir).encode()).hexdigest()[:10]
        self.run_dir = Path(f"/tmp/fabbench-lab-{os.getuid()}-{mark}")
        self.ssh_config = self.dir / "ssh_config"
        self.share = self.dir / "share"

    def read(self):
        """The recorded state, None when there is no lab."""
        try:
            return json.loads((self.dir / "state.json").read_text())
        except FileNotFoundError:
            return None

    def write(self, state):
        """Record the state, whole or not at all."""
        part = self.dir / "state.json.part"
        part.write_text(json.dumps(state, indent=1))
        part.replace(self.dir / "state.json")

    def need(self):
        """The state of a lab that should be up."""
        state = self.read()
        if not state or not state.get("up"):
            raise LabError(f"no lab is up in {self.dir}: run ci/lab up")
        return state

    def node(self, name):
        """One node's record, by name."""
        nodes = self.need()["nodes"]
        if name not in nodes:
            raise LabError(f"no node '{name}' in this lab: it has {', '.join(nodes)}")
        return nodes[name]

    def make_folders(self):
        """Create both folders; the one for sockets must be ours alone."""
        self.share.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.run_dir.mkdir(mode=0o700)
        about = self.run_dir.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
            raise LabError(f"{self.run_dir} is not a private folder of this user: remove it")

    @contextlib.contextmanager
    def locked(self):
        """Only one `up` or `down` at a time: a lock on the state folder itself."""
        while True:
            self.dir.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if same_folder(fd, self.dir):  # else: a `down` removed it meanwhile
                    yield
                    return
            finally:
                os.close(fd)

    def end(self):
        """End every recorded process and remove every file; fine to call without a lab."""
        state = self.read() or {}
        end_processes([*state.get("processes", {}).values(), *strays(self.run_dir)])
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def strays(run_dir):
    """This user's processes that belong to the lab with these sockets, recorded or not.

    An `up` that was killed outright may leave them, and ssh keeps connections open.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            own = entry.stat().st_uid == os.getuid()
        except OSError:
            continue
        if own and belongs(words, str(run_dir)):
            found.append(identity(int(entry.name)))
    return found


def belongs(words, run_dir):
    """Whether a command line is that of a lab's QEMU, its switch, or a kept ssh connection."""
    qemu = "-qmp" in words and any(word.startswith(f"unix:{run_dir}/") for word in words)
    frames = run_dir in words and any(word.endswith("labkit/switch.py") for word in words)
    return qemu or frames or words[0].startswith(f"ssh: {run_dir}/")


def same_folder(fd, path):
    """Whether an open folder is still what its path names."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def identity(pid):
    """What tells a process from a later one of the same number."""
    return {"pid": pid, "started": start_time(pid)}


def start_time(pid):
    """A process's start in clock ticks since boot, None for a dead one or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in "ZX" else int(fields[19])


def alive(process):
    """Whether a recorded process still runs."""
    return process["started"] is not None and start_time(process["pid"]) == process["started"]


def end_processes(processes, patience=2.0):
    """SIGTERM, then SIGKILL for those that remain."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for process in filter(alive, processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process["pid"], sign)
        deadline = time.monotonic() + patience
        while any(map(alive, processes)) and time.monotonic() < deadline:
            reap(processes)
            time.sleep(0.02)
        if not any(map(alive, processes)):
            return


def reap(processes):
    """Collect those that are children of ours."""
    for process in processes:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process["pid"], os.WNOHANG)
