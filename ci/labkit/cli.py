"""The commands of `ci/lab`."""

import argparse
import concurrent.futures
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import accel, faults, initramfs, kernel, ssh, switch, vm
from .common import MAX_NODES, RAILS, REPO, LabError, cache_dir, find_tool, node_name, rail_address
from .state import Lab, alive

READY_S = 150.0


def main(arguments):
    """Run one command; returns the exit code (2: wrong usage, 1: failure)."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return options.run(Lab(options.state), options) or 0
    except LabError as error:
        print(f"ci/lab: {error}", file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"ci/lab: {error} (ci/lab status tells more)", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def parser():
    """The command line."""
    top = argparse.ArgumentParser(prog="ci/lab", description="Small QEMU guests with two Soft-RoCE rails each.")
    top.add_argument("--state", metavar="DIR", help="state folder (default: target/lab, or FABBENCH_LAB_STATE)")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name, run, text, **more):
        command = commands.add_parser(name, help=text, description=text, **more)
        command.set_defaults(run=run)
        return command

    start = add("up", up, "start N nodes and wait until they answer")
    start.add_argument("nodes", nargs="?", type=int, default=2, metavar="N",
                       help=f"2 to {MAX_NODES} (default 2); 1 with --pcie-switch")
    start.add_argument("--smp", type=int, default=1, help="virtual CPUs a node (default 1)")
    start.add_argument("--mem", type=int, default=512, metavar="MIB", help="memory a node in MiB (default 512)")
    start.add_argument("--pcie-switch", action="store_true",
                       help="two sockets each, a PCIe switch, and displays as stand-ins for GPUs")
    start.add_argument("--fresh", action="store_true", help="end a running lab first")
    add("down", down, "end everything; nothing is left")
    add("status", status, "health of nodes and rails; exit 1 unless all is well").add_argument("--json", action="store_true")
    run = add("run", run_in, "run a command in a node: one word is a shell line, several are exact arguments")
    run.add_argument("node", help="node-a, or tester@node-a for an ordinary user")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    copy = add("push", push, "copy a file to every node, /usr/local/bin by default, mode 0755")
    copy.add_argument("file", type=Path)
    copy.add_argument("target", nargs="?", default="/usr/local/bin/", help="path in the guests")
    add("ssh-config", ssh_config, "print the path of the generated ssh_config")
    add("log", log, "print a node's serial log").add_argument("node")
    wire = add("link", link, "faults on a rail; without arguments, what is set and was counted",
               epilog=faults.LINK_HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("place", "action", "value"):
        wire.add_argument(name, nargs="?", metavar={"place": "NODE/RAIL"}.get(name, name.upper()))
    veil = add("hide", hide, "take away what verbs need on a node: " + ", ".join(faults.HIDDEN))
    veil.add_argument("node")
    veil.add_argument("what", choices=faults.HIDDEN)
    return top


def up(lab, options):
    """Start the lab, or say that it is already there."""
    check_wish(options)
    with lab.locked():
        state = lab.read()
        if state and not options.fresh and healthy(lab, state):
            if not fits(state, options):
                raise LabError("a lab of another shape is up: run ci/lab down, or ci/lab up --fresh")
            return note(f"already up: {', '.join(state['nodes'])}")
        lab.end()
        lab.make_folders()
        try:
            start_all(lab, options)
        except BaseException:
            lab.end()
            raise


def check_wish(options):
    """Refuse what cannot work before anything starts."""
    fewest = 1 if options.pcie_switch else 2
    if not fewest <= options.nodes <= MAX_NODES:
        raise LabError(f"{options.nodes} nodes: the lab has {fewest} to {MAX_NODES}")
    if options.pcie_switch and options.smp != 1:
        raise LabError("--pcie-switch gives each node two sockets of one CPU: leave --smp out")
    if options.smp < 1 or options.mem < 256:
        raise LabError("a node needs at least one CPU and 256 MiB")
    if platform.machine() != "x86_64":
        raise LabError(f"the lab shows its guests the host's files, so it needs an x86-64 host, not {platform.machine()}")
    for tool, package in (("sshd", "openssh-server"), ("rdma", "iproute2"), ("ssh", "openssh-client")):
        find_tool(tool, package)
    accel.qemu_binary()


def healthy(lab, state):
    """Whether a recorded lab can go on being used; one that cannot is started anew, and we say so."""
    if state["up"] and all_well(lab, state):
        return True
    note("what is left of an earlier lab is broken: starting anew")
    return False


def fits(state, options):
    """Whether a running lab is what was asked for."""
    return len(state["nodes"]) == options.nodes and state["options"] == shape(options)


def shape(options):
    """What of the wish a running lab is held against."""
    return {"smp": options.smp, "mem": options.mem, "pcie_switch": options.pcie_switch}


def start_all(lab, options):
    """From nothing to nodes that answer over ssh."""
    begun = time.monotonic()
    stock = kernel.fetch_kernel()
    base = initramfs.base_image(stock)
    chosen, reason = accel.choose(stock, base, cache_dir())
    note(f"{options.nodes} nodes, kernel {stock.release}, {chosen.upper()} ({reason})")
    ssh.make_keys(lab.dir)
    vm.join_images(lab.dir / "initrd", [base, ssh.lab_image(lab.dir, options.nodes)])
    names = [node_name(index) for index in range(options.nodes)]
    state = {
        "up": False, "accel": chosen, "reason": reason, "kernel": stock.release, "processes": {}, "nodes": {},
        "options": shape(options),
    }
    start_switch(lab, state, names)
    for index, name in enumerate(names):
        start_node(lab, state, stock, index, name)
    for name in names:
        vm.wait_ready(lab, name, state["processes"][name], begun + READY_S)
    ssh.write_config(lab, {name: state["nodes"][name]["port"] for name in names})
    on_all(names, lambda name: greet(lab, name))
    state["up"] = True
    lab.write(state)
    note(f"up in {time.monotonic() - begun:.1f} s: {', '.join(names)}")
    binary = Path(os.environ.get("CARGO_TARGET_DIR") or REPO / "target") / "release" / "fabbench"
    if binary.exists():
        push_file(lab, state, binary, "/usr/local/bin/")


def start_switch(lab, state, names):
    """Start the switch and wait for its control socket."""
    script = Path(switch.__file__)
    process = vm.start([sys.executable, "-B", str(script), str(lab.run_dir), *names], lab.dir / "switch.log")
    state["processes"]["switch"] = process
    lab.write(state)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and alive(process):
        try:
            switch.ask(str(lab.run_dir), {"op": "ports"})
            return
        except OSError:
            time.sleep(0.02)
    raise LabError("the frame switch did not start: " + (lab.dir / "switch.log").read_text()[-500:])


def start_node(lab, state, stock, index, name):
    """Start one QEMU."""
    port = free_port()
    options = {**state["options"], "accel": state["accel"], "port": port}
    command = vm.command(lab, stock, index, options)
    state["processes"][name] = vm.start(command, lab.dir / f"{name}.qemu")
    addresses = [rail_address(index, rail) for rail in RAILS]
    state["nodes"][name] = {"port": port, "rails": addresses}
    lab.write(state)


def free_port():
    """A TCP port on the loopback address that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def greet(lab, name):
    """The first ssh connection, and that both rails have their device."""
    words = ["sh", "-c", "cat /sys/class/infiniband/rxe[01]/ports/1/state"]
    done = ssh.call(lab, name, words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode != 0 or done.stdout.count("ACTIVE") != len(RAILS):
        raise LabError(f"{name} answers without two active rails: {done.stdout} {done.stderr}\n{vm.last_words(lab, name)}")


def down(lab, _options):
    """End the lab; without one, nothing happens."""
    with lab.locked():
        lab.end()


def all_well(lab, state):
    """Whether every process of the lab lives and no guest's kernel has died."""
    nodes = (vm.health(lab, name, state["processes"][name]) == "alive" for name in state["nodes"])
    return alive(state["processes"]["switch"]) and all(nodes)


def status(lab, options):
    """Print each node's health and its rails."""
    state = lab.read()
    if not state:
        print(json.dumps({"up": False}) if options.json else "no lab is up")
        return 1
    report = describe(lab, state)
    print(json.dumps(report, indent=1) if options.json else text_of(report))
    for name, node in report["nodes"].items():
        if node["health"] != "alive":
            print(vm.fatal_line(lab, name) or vm.last_words(lab, name), file=sys.stderr)
    return 0 if report["well"] else 1


def describe(lab, state):
    """The lab's health as data."""
    nodes = {}
    for name, node in state["nodes"].items():
        health = vm.health(lab, name, state["processes"][name])
        nodes[name] = {**node, "health": health, "ports": rail_states(lab, name) if health == "alive" else []}
    well = state["up"] and all_well(lab, state) and all(rails_active(node) for node in nodes.values())
    return {"up": state["up"], "well": well, "accel": state["accel"], "reason": state["reason"],
            "kernel": state["kernel"], "switch": alive(state["processes"]["switch"]), "nodes": nodes}


def rails_active(node):
    """Whether a node answered with all its ports active."""
    return len(node["ports"]) == len(RAILS) and all("ACTIVE" in port for port in node["ports"])


def rail_states(lab, name):
    """State of each RDMA port as the guest's sysfs tells it; empty when ssh fails."""
    line = "for r in 0 1; do cat /sys/class/infiniband/rxe$r/ports/1/state 2>/dev/null || echo absent; done"
    try:
        done = ssh.call(lab, name, [line], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.split("\n")[: len(RAILS)] if done.returncode == 0 else []


def text_of(report):
    """The lab's health for people."""
    lines = [f"{report['accel'].upper()} ({report['reason']}), kernel {report['kernel']}, "
             f"switch {'alive' if report['switch'] else 'dead'}"]
    for name, node in report["nodes"].items():
        rails = [f"rxe{rail} {node['rails'][rail]} {port}" for rail, port in enumerate(node["ports"])]
        lines.append(f"{name}: {node['health']}; {', '.join(rails) or 'does not answer over ssh'}")
    return "\n".join(lines)


def run_in(lab, options):
    """Become the ssh command: its exit code is ours."""
    lab.node(options.node.rpartition("@")[2])
    if not options.words:
        raise LabError("a command is missing: ci/lab run NODE CMD...")
    command = ssh.command(lab, options.node, options.words)
    sys.stdout.flush()
    os.execv(command[0], command)


def push(lab, options):
    """Copy a file to all nodes."""
    if not options.file.is_file():
        raise LabError(f"{options.file} is not a file: build it first")
    push_file(lab, lab.need(), options.file, options.target)


def push_file(lab, state, file, target):
    """Copy by way of a shared folder that guests do not cache, unlike the host's other files."""
    path = f"{target}{file.name}" if target.endswith("/") else target
    handle, shared = tempfile.mkstemp(dir=lab.share)
    os.close(handle)
    try:
        shutil.copyfile(file, shared)
        on_all(state["nodes"], lambda name: faults.in_guest(lab, name, "take", os.path.basename(shared), path))
    finally:
        os.unlink(shared)
    note(f"{file} is {path} on {', '.join(state['nodes'])}")


def on_all(names, work):
    """Do the same for several nodes at once; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(work, names))


def ssh_config(lab, _options):
    """Print where the ssh_config is."""
    lab.need()
    print(lab.ssh_config)


def log(lab, options):
    """Print a serial log."""
    lab.node(options.node)
    shutil.copyfileobj(open(vm.serial_log(lab, options.node), "rb"), sys.stdout.buffer)


def link(lab, options):
    """Set or show faults."""
    lab.need()
    if options.place is None:
        for name, port in switch.ask(str(lab.run_dir), {"op": "ports"}).items():
            print(name, "connected" if port["connected"] else "not connected", json.dumps({**port["faults"], **port["sent"]}))
        return 0
    if options.action is None:
        raise LabError(f"an action is missing\n{faults.LINK_HELP}")
    return faults.link(lab, options.place, options.action, options.value)


def hide(lab, options):
    """Hide something on a node."""
    return faults.hide(lab, options.node, options.what)


def note(text):
    """Progress goes to standard error; standard output is for answers."""
    print(f"ci/lab: {text}", file=sys.stderr)
