"""KVM or TCG? /dev/kvm may open and still be useless, so a small guest is booted once."""

import hashlib
import json
import os
import platform
import selectors
import subprocess
import time
from pathlib import Path

from .common import READY, LabError, find_tool

PROBE_S = 6.0
KVM_BROKEN = "KVM internal error"
CHOICES = ("kvm", "tcg")


def qemu_binary():
    """Path of QEMU; FABBENCH_LAB_QEMU overrides it."""
    return os.environ.get("FABBENCH_LAB_QEMU") or find_tool("qemu-system-x86_64", "qemu-system-x86")


def choose(kernel, initrd, cache, device="/dev/kvm"):
    """("kvm" or "tcg", reason). FABBENCH_LAB_ACCEL overrides; the probe's answer is remembered."""
    asked = os.environ.get("FABBENCH_LAB_ACCEL")
    if asked:
        if asked not in CHOICES:
            raise LabError(f"FABBENCH_LAB_ACCEL={asked}: use one of {', '.join(CHOICES)}")
        return asked, "asked for by FABBENCH_LAB_ACCEL"
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg", f"{device} is missing or not writable for this user"
    memory = Path(cache) / f"accel-{fingerprint(kernel)}.json"
    try:
        known = json.loads(memory.read_text())
        return known["accel"], known["reason"] + " (remembered)"
    except (OSError, ValueError, KeyError):
        pass
    accel, reason = probe(kernel, initrd, PROBE_S)
    memory.write_text(json.dumps({"accel": accel, "reason": reason}))
    return accel, reason


def fingerprint(kernel):
    """Changes when the guest kernel, QEMU or the host's kernel does."""
    qemu = os.path.realpath(qemu_binary())
    about = os.stat(qemu)
    parts = (kernel.release, qemu, about.st_size, about.st_mtime_ns, platform.release())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def cpu_options(accel):
    """QEMU options for an accelerator.

    No cmpxchg16b under emulation: where it fails, QEMU 7.2 has been seen to leave an address in the
    flags register, and the next interrupt kills the guest (a double fault in the kernel's allocator,
    EFLAGS 05d78202 beside RDI ffff888005d78000). The kernel does without it.
    """
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "Nehalem,-cx16"]


def probe(kernel, initrd, patience):
    """Boot a guest under KVM until it says that it is ready, fails, or takes too long."""
    command = [
        *(qemu_binary(), "-M", "q35", *cpu_options("kvm"), "-m", "256", "-smp", "1"),
        *("-nodefaults", "-no-user-config", "-vga", "none", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(initrd), "-serial", "stdio"),
        *("-append", "console=ttyS0 quiet panic=-1 lab.probe"),
    ]
    guest = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        return judge(guest, time.monotonic() + patience)
    finally:
        guest.kill()
        guest.wait()
        guest.stdout.close()


def judge(guest, deadline):
    """Read what QEMU and its guest say until it decides the matter."""
    said = ""
    with selectors.DefaultSelector() as waiting:
        waiting.register(guest.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not waiting.select(left):
                break
            chunk = os.read(guest.stdout.fileno(), 65536)
            if not chunk:
                last = (said.strip().splitlines() or ["without a word"])[-1]
                return "tcg", f"QEMU ended under KVM: {last}"
            said += chunk.decode(errors="replace")
            if READY in said:
                return "kvm", "a guest booted under KVM"
            if KVM_BROKEN in said:
                return "tcg", f"/dev/kvm opens, but QEMU reports \"{KVM_BROKEN}\""
    return "tcg", f"no guest came up under KVM within {PROBE_S:g} s"
