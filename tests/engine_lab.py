"""A place of its own for engines: real sshd, Slurm and MPI on one machine, which stays as it is.

The programs are Debian's packages, unpacked into the folder that MUSADOCTOR_TEST_ENGINES names
(``./bootstrap test`` makes it where it can). Inside of namespaces of its own (mounts, network,
processes, host name) that folder is laid over ``/usr`` and ``/etc``; what is written there is gone
with the lab.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INSIDE = """\
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs "$2"
for part in usr etc; do
  mkdir -p "$2/$part" "$2/$part.work"
  mount -t overlay overlay -o "lowerdir=$1/$part:/$part,upperdir=$2/$part,workdir=$2/$part.work" /$part
done
mount -t tmpfs tmpfs /var/lib; mkdir -p /var/lib/munge
for user in munge:990 sshd:991; do
  grep -q "^${user%:*}:" /etc/passwd || echo "${user%:*}:x:${user#*:}:${user#*:}::/:/bin/false" >>/etc/passwd
  grep -q "^${user%:*}:" /etc/group || echo "${user%:*}:x:${user#*:}:" >>/etc/group
done
hostname control
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.0.254/24 dev br0
ip link set br0 up
echo ready
exec sleep infinity
"""
"""``$1`` the unpacked packages, ``$2`` a folder for what is written."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Lab:
    """The namespaces, with a network ``10.77.0.0/24``; commands can be run in them."""

    def __init__(self, packages: Path, folder: Path) -> None:
        """Make the namespaces.

        Raises:
            OSError: the system does not allow it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._upper = folder / "written"
        self._upper.mkdir()
        self._keeper = subprocess.Popen(
            [
                # Gone with the tests, even if those are killed.
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", INSIDE, "sh", str(packages), str(self._upper)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": PATH},
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stderr is not None
        if self._keeper.stdout.readline() != "ready\n":
            self._keeper.kill()
            raise OSError(self._keeper.stderr.read())
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        self._inside = children.read_text().split()[0]

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs ``argv`` in the lab, in the current folder."""
        enter = ("nsenter", "-t", self._inside, "--mount", "--net", "--uts", "--pid")
        return [*enter, f"--wd={os.getcwd()}", *argv]

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """For whatever runs in the lab."""
        return {**os.environ, "PATH": PATH, **(variables or {})}

    def run(
        self, *argv: str, variables: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab to its end."""
        return subprocess.run(
            self.command(argv),
            env=self.environment(variables),
            text=True,
            capture_output=True,
            check=options.pop("check", False),
            **{"timeout": 120, **options},
        )

    def start(
        self, *argv: str, variables: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in the lab."""
        return subprocess.Popen(
            self.command(argv), env=self.environment(variables), text=True, **options
        )

    def close(self) -> None:
        """End all that runs in the lab; what was mounted goes with it."""
        self._keeper.kill()
        self._keeper.communicate()
