"""The distribution's newest stock kernel: found by apt, unpacked into the cache, not installed."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from .common import LabError, cache_dir, find_tool, output_of

# Kernel image packages by distribution, and what else holds that kernel's modules.
DISTRIBUTIONS = {
    "debian": (r"linux-image-(\d[\w.+~-]*)-amd64(?:-unsigned)?", ()),
    "ubuntu": (
        r"linux-image-(?:unsigned-)?(\d[\w.+~-]*)-generic",
        ("linux-modules-{}-generic", "linux-modules-extra-{}-generic"),
    ),
}
SYSTEM_LISTS = "/var/lib/apt/lists"
LISTS_DAYS = 7
"""Security updates replace kernels within weeks; a download by older lists often fails."""
SPECIAL_KERNELS = re.compile(r"-(cloud|rt|dbg|lowlatency|64k)\b")


class Kernel:
    """An unpacked kernel: `release`, `image` (path of vmlinuz), `root` (modprobe -d)."""

    def __init__(self, root):
        self.root = Path(root)
        self.image = next(self.root.glob("boot/vmlinuz-*"))
        self.release = self.image.name.removeprefix("vmlinuz-")


def distribution(os_release="/etc/os-release"):
    """`debian` or `ubuntu`, whichever table of package names fits this machine."""
    try:
        fields = dict(line.split("=", 1) for line in Path(os_release).read_text().splitlines() if "=" in line)
    except OSError:
        fields = {}
    names = [fields.get(key, "").strip('"') for key in ("ID", "ID_LIKE")]
    for known in ("ubuntu", "debian"):
        if known in " ".join(names).split():
            return known
    raise LabError(f"no kernel packages known for '{names[0]}': the lab needs Debian or Ubuntu")


def natural_key(text):
    """Sort key under which 6.12 follows 6.9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def newest_first(names, pattern):
    """Stock kernel image packages among `names`, the newest first, signed before unsigned."""
    found = []
    for name in names:
        match = re.fullmatch(pattern, name)
        if match and not SPECIAL_KERNELS.search(name):
            found.append((natural_key(match.group(1)), "unsigned" not in name, name))
    return [name for _, _, name in sorted(found, reverse=True)]


def fetch_kernel():
    """The newest stock kernel apt offers, downloaded and unpacked on first use.

    By the machine's package lists while they are fresh, else by lists of our own, which need no
    root; where nothing can be fetched, by what there is: old lists, or an earlier run's kernel.
    """
    with open(cache_dir() / "kernel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return first_that_works(machine_kernel, own_kernel, lambda: fetch_by([]), newest_cached)


def first_that_works(*ways):
    """What the first way gives that is not a LabError; the last way's error when none does."""
    for way in ways[:-1]:
        try:
            return way()
        except LabError:
            continue
    return ways[-1]()


def machine_kernel():
    """By the machine's package lists, if they are fresh: old ones name kernels that are gone."""
    if not fresh(SYSTEM_LISTS):
        raise LabError(f"the package lists in {SYSTEM_LISTS} are old")
    return fetch_by([])


def own_kernel():
    """By lists in our cache, fetched anew when they are old."""
    if not fresh(cache_dir() / "apt" / "lists"):
        update_own_lists()
    return fetch_by(own_lists(), cache_dir() / "apt" / "lists")


def fresh(lists, now=None):
    """Whether a folder of package lists was brought up to date within LISTS_DAYS."""
    try:
        age_s = (now or time.time()) - os.stat(lists).st_mtime
    except OSError:
        return False
    return age_s < LISTS_DAYS * 86400 and any(Path(lists).glob("*Packages*"))


def fetch_by(options, lists=SYSTEM_LISTS):
    """The newest kernel by the package lists that some apt options name.

    Asking apt takes seconds, so its answer is remembered until the lists change.
    """
    memory = cache_dir() / "kernel.json"
    about = [str(lists), os.stat(lists).st_mtime_ns if os.path.isdir(lists) else 0]
    known = remembered(memory, about)
    if known:
        return Kernel(known)
    name, version = resolve(options)
    target = cache_dir() / "kernels" / f"{name}_{version}"
    if not target.exists():
        unpack(name, options, target)
        remove_others(target)
    memory.write_text(json.dumps({"about": about, "kernel": str(target)}))
    return Kernel(target)


def remembered(memory, about):
    """The kernel that was found by the same lists and is still there, or None."""
    try:
        known = json.loads(memory.read_text())
        return known["kernel"] if known["about"] == about and Path(known["kernel"]).is_dir() else None
    except (OSError, ValueError, KeyError):
        return None


def newest_cached():
    """The newest kernel of an earlier run, for a machine that has no package lists now."""
    kept = sorted((cache_dir() / "kernels").glob("linux-image-*"), key=lambda path: natural_key(path.name))
    if not kept:
        raise LabError("no kernel of an earlier run is in the cache")
    return Kernel(kept[-1])


def resolve(options):
    """(package, version) of the newest stock kernel that can be downloaded."""
    pattern, _ = DISTRIBUTIONS[distribution()]
    names = output_of(["apt-cache", *options, "pkgnames", "linux-image-"]).split()
    for name in newest_first(names, pattern)[:4]:
        version = candidate_version(name, options)
        if version:
            return name, version
    raise LabError("apt offers no stock kernel: check apt's sources, run `apt-get update`, then again")


def candidate_version(name, options):
    """Version of a package that can be downloaded, None for a name only mentioned by others."""
    done = subprocess.run(
        ["apt-cache", *options, "show", "--no-all-versions", name], capture_output=True, text=True
    )
    version = re.search(r"^Version: (\S+)", done.stdout, re.M)
    return version.group(1) if version and "\nFilename: " in done.stdout else None


def own_lists():
    """apt options for package lists in our cache, which need no root."""
    base = cache_dir() / "apt"
    return ["-o", f"Dir::State::Lists={base}/lists", "-o", f"Dir::Cache={base}", "-o", "Debug::NoLocking=1"]


def update_own_lists():
    """Fetch package lists into our cache."""
    for folder in ("lists/partial", "archives/partial"):
        (cache_dir() / "apt" / folder).mkdir(parents=True, exist_ok=True)
    output_of(["apt-get", *own_lists(), "-q", "update"])
    # apt leaves the folder's time alone when nothing has changed.
    os.utime(cache_dir() / "apt" / "lists")


def unpack(name, options, target):
    """Download a kernel image and the packages of its modules, unpack them into `target`."""
    pattern, companions = DISTRIBUTIONS[distribution()]
    version = re.fullmatch(pattern, name).group(1)
    work = target.with_name(target.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    packages = [name, *(companion.format(version) for companion in companions)]
    output_of(["apt-get", *options, "-q", "download", *packages], cwd=work)
    for package in work.glob("*.deb"):
        output_of(["dpkg", "-x", str(package), str(work)])
        package.unlink()
    if not (work / "lib").exists():  # merged-/usr packages
        (work / "lib").symlink_to("usr/lib")
    output_of([find_tool("depmod", "kmod"), "-b", str(work), Kernel(work).release])
    work.rename(target)


def remove_others(target):
    """Keep one unpacked kernel: running guests have theirs in memory."""
    for other in target.parent.iterdir():
        if other != target:
            shutil.rmtree(other, ignore_errors=True)
