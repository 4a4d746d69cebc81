"""What every part of the lab shares: names, addresses, paths, one error type."""

import os
import shutil
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
MAX_NODES = 4
RAILS = (0, 1)
READY = "fabbench-lab: ready"
"""What a guest writes to its serial line once everything is up."""


class LabError(Exception):
    """A failure told to the user as one sentence that ends with the next step."""


def node_name(index):
    """`node-a` for 0, `node-b` for 1, …"""
    return "node-" + "abcd"[index]


def rail_address(index, rail):
    """IPv4 address of a node's rail: a /24 for each rail."""
    return f"192.168.{100 + rail}.{index + 1}"


def rail_mac(index, rail):
    """MAC address of a node's rail (locally administered)."""
    return f"52:54:00:fa:{index + 1:02x}:{rail:02x}"


def cache_dir():
    """Where kernels, initramfs images and the probe's answer are kept between labs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "fabbench-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def find_tool(name, package):
    """Path of a program, also from the sbin folders an ordinary user's PATH lacks."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    if not found:
        raise LabError(f"{name} is not installed (package {package}): run ci/install-packages lab")
    return found


def output_of(command, **options):
    """Standard output of a command as text; a failure becomes a LabError that quotes it."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(f"`{' '.join(map(str, command))}` failed: {' / '.join(lines[-3:])}")
    return done.stdout
