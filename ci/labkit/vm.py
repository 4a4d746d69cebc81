"""One guest: its QEMU command line, its serial log, its monitor."""

import json
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from . import accel, pcie
from .common import RAILS, READY, LabError, node_name, rail_mac
from .state import alive, identity

DEAD_KERNEL = re.compile(r"Oops|[Pp]anic\b|cleanup failed|BUG: |fabbench-lab: failed")
KERNEL_LINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check audit=0 apparmor=0 "
    "cryptomgr.notests nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
)


def command(lab, kernel, index, options):
    """QEMU's command line for a node. `options`: accel, smp, mem (MiB), port, pcie_switch."""
    name = node_name(index)
    switch = options["pcie_switch"]
    return [
        *(accel.qemu_binary(), "-name", f"fabbench-{name}", "-M", "q35", *accel.cpu_options(options["accel"])),
        *machine(options, switch),
        *("-nodefaults", "-no-user-config", "-vga", "none", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(lab.dir / "initrd"), "-append"),
        f"{KERNEL_LINE} lab.node={name} lab.index={index + 1}",
        *("-chardev", f"file,id=serial,path={comma_safe(serial_log(lab, name))}", "-serial", "chardev:serial"),
        *("-qmp", f"unix:{lab.run_dir}/{name}.qmp,server=on,wait=off"),
        *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=root,mount_tag=hostroot"),
        *("-fsdev", f"local,id=share,path={comma_safe(lab.share)},security_model=none,readonly=on"),
        *("-device", "virtio-9p-pci,fsdev=share,mount_tag=share", "-device", "virtio-rng-pci"),
        *(pcie.topology() if switch else ()),
        *networks(lab, name, index, options["port"], pcie.NIC_BUSES if switch else ("pcie.0",) * 3),
    ]


def machine(options, switch):
    """Processors, memory and firmware. Only QEMU's own firmware sets up root complexes of its own."""
    if switch:
        return pcie.machine(options["mem"])
    return ["-smp", str(options["smp"]), "-m", str(options["mem"]), *firmware()]


def comma_safe(path):
    """A path inside a QEMU option: commas are doubled."""
    return str(path).replace(",", ",,")


def firmware():
    """qboot starts a kernel fastest; without it QEMU's own default does."""
    rom = Path("/usr/share/qemu/qboot.rom")
    return ["-bios", str(rom)] if rom.exists() else []


def networks(lab, name, index, port, buses):
    """Two rails through the switch, then the NIC for ssh. eth0, eth1, eth2 in this order."""
    options = []
    for rail in RAILS:
        options += ["-netdev", f"stream,id=rail{rail},server=off,addr.type=unix,addr.path={lab.run_dir}/{name}.{rail}"]
        options += ["-device", f"virtio-net-pci,netdev=rail{rail},id=nic{rail},bus={buses[rail]},mac={rail_mac(index, rail)},host_mtu=9000,romfile="]
    options += ["-netdev", f"user,id=mgmt,hostfwd=tcp:127.0.0.1:{port}-:22"]
    return options + ["-device", f"virtio-net-pci,netdev=mgmt,bus={buses[2]},romfile="]


def serial_log(lab, name):
    """Path of a node's serial log."""
    return lab.dir / f"{name}.serial"


def start(command_line, log):
    """Start a process that outlives us; returns its identity."""
    with open(log, "ab") as out:
        process = subprocess.Popen(command_line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    return identity(process.pid)


def wait_ready(lab, name, process, deadline):
    """Wait for the guest's ready line; a dead QEMU or kernel ends the wait with its last words."""
    log = serial_log(lab, name)
    while True:
        text = log.read_text(errors="replace") if log.exists() else ""
        dead = fatal_line(lab, name)
        if dead or not alive(process):
            what = f"its kernel or first program failed: {dead}" if dead else "QEMU ended"
            raise LabError(f"{name} did not come up: {what}\n{last_words(lab, name)}")
        if READY in text:
            return
        if time.monotonic() > deadline:
            raise LabError(f"{name} is not ready in time\n{last_words(lab, name)}")
        time.sleep(0.05)


def last_words(lab, name, lines=20):
    """The end of a node's QEMU output and serial log."""
    said = []
    for log in (lab.dir / f"{name}.qemu", serial_log(lab, name)):
        if log.exists():
            said += [f"  {log.name}: {line}" for line in log.read_text(errors="replace").splitlines()[-lines:]]
    return "\n".join(said) or "  (nothing was logged)"


def health(lab, name, process):
    """`alive`, `dead` (no QEMU), `panicked` (the serial log says so) or `stopped` (QEMU paused)."""
    if fatal_line(lab, name):
        return "panicked"
    if not alive(process):
        return "dead"
    try:
        return "alive" if monitor(lab, name, "query-status")["running"] else "stopped"
    except (OSError, LabError):
        return "dead" if not alive(process) else "stopped"


def fatal_line(lab, name):
    """The first line of a serial log that tells of a dead kernel, None for a sound one."""
    log = serial_log(lab, name)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((f"  {log.name}: {line}" for line in lines if DEAD_KERNEL.search(line)), None)


def monitor(lab, node, execute, arguments=None):
    """Run one QMP command; returns what it returns."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(5.0)
        sock.connect(f"{lab.run_dir}/{node}.qmp")
        stream = sock.makefile("rw")
        for request in ({"execute": "qmp_capabilities"}, {"execute": execute, "arguments": arguments or {}}):
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answer = next(reply for reply in map(json.loads, stream) if "return" in reply or "error" in reply)
        if "error" in answer:
            raise LabError(f"QEMU refused {execute} on {node}: {answer['error'].get('desc')}")
        return answer["return"]


def join_images(target, parts):
    """Concatenate initramfs parts; the kernel unpacks one after the other."""
    with open(target, "wb") as out:
        for part in parts:
            if isinstance(part, bytes):
                out.write(part)
            else:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, out)
            out.write(b"\0" * (-out.tell() % 512))
