"""Faults on purpose: what a rail's link can suffer, and what a guest can be made to lack."""

import sys

from . import ssh, switch, vm
from .common import RAILS, LabError

HIDDEN = ("library", "provider", "uverbs", "nodes", "rxe", "none")
LINK_HELP = """actions on NODE/RAIL (rail 0 or 1; what the node sends, cut works both ways):
  cut | heal          carrier off (the port goes DOWN) and on again
  drop | pass         frames vanish while the carrier stays up, and no longer
  loss PERCENT        each frame is lost with this probability
  delay MS            each frame arrives later by this many milliseconds
  shape RATE|none     token bucket in the guest, e.g. 20mbit (RDMA included)
  mtu BYTES           MTU of the network device (9000: path MTU 4096; 1500: 1024)
  clear               all of these back to normal"""


def link(lab, place, action, value):
    """Apply one action to a rail."""
    name, rail = parse_place(lab, place)
    if action in ("cut", "heal"):
        set_carrier(lab, name, rail, action == "heal")
    elif action in ("drop", "pass"):
        set_faults(lab, place, drop=action == "drop")
    elif action == "loss":
        set_faults(lab, place, loss=number(value, "loss in percent", 100) / 100)
    elif action == "delay":
        set_faults(lab, place, delay_ms=number(value, "delay in milliseconds", 60_000))
    elif action == "shape":
        in_guest(lab, name, "shape", str(rail), need(value, "a rate such as 20mbit, or none"))
    elif action == "mtu":
        in_guest(lab, name, "mtu", str(rail), str(int(number(value, "an MTU in bytes", 9000))))
    elif action == "clear":
        clear(lab, name, rail)
    else:
        raise LabError(f"unknown link action '{action}'\n{LINK_HELP}")


def clear(lab, name, rail):
    """A rail as it was after `up`."""
    set_carrier(lab, name, rail, True)
    set_faults(lab, f"{name}/{rail}", **switch.NO_FAULTS)
    in_guest(lab, name, "shape", str(rail), "none")
    in_guest(lab, name, "mtu", str(rail), "9000")


def set_carrier(lab, name, rail, on):
    """Plug or unplug a rail's cable, as the guest sees it."""
    vm.monitor(lab, name, "set_link", {"name": f"nic{rail}", "up": on})


def parse_place(lab, place):
    """("node-a", 0) from "node-a/0"."""
    name, _, rail = place.partition("/")
    lab.node(name)
    if rail not in map(str, RAILS):
        raise LabError(f"'{place}' names no rail: say {name}/0 or {name}/1")
    return name, int(rail)


def set_faults(lab, place, **faults):
    """Change what the switch does to a port."""
    switch.ask(str(lab.run_dir), {"op": "set", "port": place, **faults})


def number(text, what, most):
    """A number between 0 and `most`."""
    try:
        value = float(need(text, what))
    except ValueError:
        raise LabError(f"'{text}' is not a number: give {what}") from None
    if not 0 <= value <= most:
        raise LabError(f"{text} is out of range: give {what} between 0 and {most}")
    return value


def need(value, what):
    """The value, or an error that says what is missing."""
    if value is None:
        raise LabError(f"a value is missing: give {what}")
    return value


def hide(lab, name, what):
    """Take something away from a guest, or give everything back with `none`."""
    lab.node(name)
    if what not in HIDDEN:
        raise LabError(f"cannot hide '{what}': use one of {', '.join(HIDDEN)}")
    in_guest(lab, name, "hide", what)


def in_guest(lab, name, *words):
    """Run the guest's own script; its failure is ours."""
    done = ssh.call(lab, name, ["sh", "/run/lab/guest", *words], capture_output=True, text=True, timeout=30)
    sys.stderr.write(done.stdout)
    if done.returncode != 0:
        raise LabError(f"{' '.join(words)} failed on {name}: {done.stderr.strip() or done.returncode}")
