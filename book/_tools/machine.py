"""Says in one line what a machine lacks before anything is installed.

Runs on any Python 3 with the standard library only: it must speak to the Python that is too old.
"""

import importlib.util
import os
import shutil
import sys

NEED_GB = 4  # 1.6 GB with a CPU build of torch, more than twice that with a CUDA build


def free_gb(path):
    """Room where ``path`` is or would be made."""
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free / 1e9


def complaint(version, has_ensurepip, free_gb):
    """The one line to show, or None when the machine will do."""
    if version < (3, 11):
        return (
            "pjrope's book needs Python 3.11 or newer, this is %d.%d: "  # noqa: UP031
            "name another one, as in `make PYTHON=python3.12 book`" % version
        )
    if not has_ensurepip:
        return (
            "this Python cannot make a virtual environment (no ensurepip): "
            "on Debian or Ubuntu, apt-get install python3-venv"
        )
    if free_gb < NEED_GB:
        return (
            "%.1f GB free here, the environment needs about %d GB: "  # noqa: UP031
            "free some, or put it elsewhere with `make VENV=/path book`" % (free_gb, NEED_GB)
        )
    return None


if __name__ == "__main__":
    said = complaint(
        sys.version_info[:2],
        importlib.util.find_spec("ensurepip") is not None,
        free_gb(sys.argv[1] if len(sys.argv) > 1 else "."),
    )
    if said:
        sys.exit(said)
