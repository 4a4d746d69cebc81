"""ssh into the guests: throw-away keys, what sshd reads there, a generated ssh_config."""

import shlex
import subprocess

from .common import RAILS, find_tool, node_name, output_of, rail_address
from .initramfs import Archive

CRYPTO = (
    "KexAlgorithms curve25519-sha256\nCiphers aes128-ctr,chacha20-poly1305@openssh.com\n"
    "MACs umac-64@openssh.com,hmac-sha2-256\n"
)
SSHD_CONFIG = (
    "Port 22\nHostKey /etc/fabbench-lab/host_key\nAuthorizedKeysFile /etc/fabbench-lab/authorized_keys\n"
    "PermitRootLogin yes\nPasswordAuthentication no\nStrictModes no\nUsePAM no\nUseDNS no\nPrintMotd no\n"
    "PidFile none\nMaxStartups 100:30:200\nMaxSessions 100\nLoginGraceTime 60\n"
    "Subsystem sftp internal-sftp\n" + CRYPTO
)
QUIET = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\n"
PATH_LINE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    "tester:x:1000:1000:an ordinary user:/home/tester:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nutmp:x:43:\ntester:x:1000:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\ntester:*:19000:0:99999:7:::\nnobody:*:19000::::::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "etc/profile": PATH_LINE,
    "etc/bash.bashrc": "",
    "etc/motd": "",
    "etc/resolv.conf": "",
    "etc/environment": "",
}


def make_keys(folder):
    """A client key `id` and a host key `host_key`, used by this lab only."""
    for name in ("id", "host_key"):
        output_of([find_tool("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", "fabbench-lab", "-f", str(folder / name)])


def lab_image(folder, count):
    """The part of the initramfs that belongs to this lab: accounts, keys, names."""
    archive = Archive()
    for name, text in ACCOUNTS.items():
        archive.file(f"lab/top/{name}", text, 0o600 if name.endswith("shadow") else 0o644)
    archive.file("lab/top/etc/hosts", hosts(count))
    archive.file("lab/top/etc/ssh/ssh_config", "Host *\n" + QUIET)
    own = "lab/top/etc/fabbench-lab"
    archive.file(f"{own}/sshd_config", SSHD_CONFIG)
    archive.file(f"{own}/host_key", (folder / "host_key").read_bytes(), 0o600)
    archive.file(f"{own}/id", (folder / "id").read_bytes(), 0o600)
    archive.file(f"{own}/authorized_keys", (folder / "id.pub").read_bytes())
    return archive.bytes()


def hosts(count):
    """/etc/hosts of the guests: a node's name is its first rail, `-0` and `-1` each rail."""
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    for index in range(count):
        name = node_name(index)
        lines.append(f"{rail_address(index, 0)} {name}")
        lines += [f"{rail_address(index, rail)} {name}-{rail}" for rail in RAILS]
    return "\n".join(lines) + "\n"


def write_config(lab, ports):
    """The ssh_config for `ssh -F`; connections are kept open under short paths."""
    blocks = [f"Host {name}\n    HostName 127.0.0.1\n    Port {port}\n" for name, port in ports.items()]
    common = (
        f"Host *\n    User root\n    IdentityFile {quoted(lab.dir / 'id')}\n    IdentitiesOnly yes\n"
        f"    IdentityAgent none\n    ControlMaster auto\n    ControlPath {lab.run_dir}/%r@%n\n    ControlPersist 300\n"
        "    ServerAliveInterval 5\n    ServerAliveCountMax 6\n    ConnectTimeout 10\n"
    )
    lab.ssh_config.write_text("".join(blocks) + common + indent(QUIET + CRYPTO))


def quoted(path):
    """A path as ssh_config reads it, blanks included."""
    return f'"{path}"'


def indent(text):
    """Four blanks before every line."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def command(lab, node, words):
    """The ssh command line for a node: one word is a shell line, several are exact arguments."""
    line = words[0] if len(words) == 1 else shlex.join(words)
    return [find_tool("ssh", "openssh-client"), "-F", str(lab.ssh_config), node, line]


def call(lab, node, words, **options):
    """Run something in a guest and return the finished process."""
    return subprocess.run(command(lab, node, words), **options)
