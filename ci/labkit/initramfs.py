"""The guests' initramfs: busybox, kernel modules, two scripts, and the files of one lab."""

import gzip
import hashlib
import lzma
import os
import stat
import struct
import subprocess
from pathlib import Path

from .common import LabError, cache_dir, find_tool

# Loaded in this order with their dependencies. A name the kernel lacks is either built in
# or gone from newer kernels (crc32_generic), so only the last must exist.
MODULES = (
    "virtio_pci crc32_generic 9pnet_virtio 9p overlay virtio_net virtio_rng "
    "ib_uverbs rdma_ucm sch_tbf sch_netem rdma_rxe"
).split()
APPLETS = "sh mount mkdir insmod cat cp chmod chown echo poweroff switch_root sleep".split()
SCRIPTS = Path(__file__).resolve().parent


class Archive:
    """A cpio archive ("newc") built in memory; folders appear before what they hold."""

    def __init__(self):
        self.parts = []
        self.names = set()

    def folder(self, name, mode=0o755):
        """Add a folder and its parents, once."""
        if name in ("", ".") or name in self.names:
            return
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFDIR | mode, b"")

    def file(self, name, data, mode=0o644):
        """Add a regular file owned by root."""
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data if isinstance(data, bytes) else data.encode())

    def link(self, name, target):
        """Add a symbolic link."""
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def _entry(self, name, mode, data):
        self.names.add(name)
        path = name.encode() + b"\0"
        fields = (len(self.names), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def bytes(self):
        """The finished archive; several of them may follow each other."""
        self._entry("TRAILER!!!", 0, b"")
        return b"".join(self.parts)


def base_image(kernel):
    """Path of the part that all labs on this kernel share, built on first use."""
    scripts = {name: (SCRIPTS / name).read_bytes() for name in ("guest-init", "guest")}
    busybox = Path(find_tool("busybox", "busybox-static")).read_bytes()
    own = Path(__file__).read_bytes()
    digest = hashlib.sha256(b"\0".join([kernel.release.encode(), busybox, *scripts.values(), own]))
    path = cache_dir() / f"initramfs-{kernel.release}-{digest.hexdigest()[:12]}.cpio"
    if path.exists():
        return path
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(build_base(kernel, busybox, scripts))
    part.replace(path)
    remove_older(path)
    return path


def remove_older(path):
    """Images of other kernels or scripts are not used again."""
    for other in path.parent.glob("initramfs-*.cpio"):
        if other != path:
            other.unlink(missing_ok=True)


def build_base(kernel, busybox, scripts):
    """The shared part of the image as bytes (not compressed: unpacking is slow under TCG)."""
    if needs_loader(busybox):
        raise LabError("busybox is not the static one: run ci/install-packages lab")
    archive = Archive()
    archive.file("bin/busybox", busybox, 0o755)
    for applet in APPLETS:
        archive.link(f"bin/{applet}", "busybox")
    archive.file("init", scripts["guest-init"], 0o755)
    archive.file("lab/guest", scripts["guest"], 0o755)
    for folder in ("dev", "proc", "sys", "low", "over", "root"):
        archive.folder(folder)
    order = []
    for module in module_files(kernel):
        archive.file(f"modules/{len(order):02}-{plain_name(module)}", without_signature(decompressed(module)))
        order.append(f"{len(order):02}-{plain_name(module)}")
    archive.file("modules/order", "\n".join(order) + "\n")
    return archive.bytes()


def needs_loader(elf):
    """Whether a 64-bit ELF program has a PT_INTERP header: it is not static."""
    (table,) = struct.unpack_from("<Q", elf, 32)
    entry, count = struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, table + entry * index)[0] == 3 for index in range(count))


def module_files(kernel):
    """Module files in loading order, each once."""
    modprobe = find_tool("modprobe", "kmod")
    files = []
    for name in MODULES:
        command = [modprobe, "-d", str(kernel.root), "-S", kernel.release, "--show-depends", name]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("insmod ")]
        if not lines and name == MODULES[-1]:
            raise LabError(f"kernel {kernel.release} has no module {name}: the lab cannot emulate RDMA with it")
        files += [Path(line) for line in lines if Path(line) not in files]
    return files


def plain_name(path):
    """`rdma_rxe.ko` for `rdma_rxe.ko.xz`."""
    return path.name.split(".ko")[0] + ".ko"


SIGNED = b"~Module signature appended~\n"


def without_signature(module):
    """A module without its appended signature: checking it costs 25 ms each under TCG."""
    if not module.endswith(SIGNED):
        return module
    tail = len(SIGNED)
    size = int.from_bytes(module[-tail - 4 : -tail], "big")  # ends the 12 bytes that describe it
    return module[: -tail - 12 - size]


def decompressed(path):
    """Contents of a kernel module, whatever it is compressed with."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run([find_tool("zstd", "zstd"), "-dcq", str(path)], check=True, capture_output=True).stdout
    return path.read_bytes()
