"""Hosts that ``mpirun`` reaches: a rank on each, as an MPI job would have it.

Every host has an ``mpirun`` of its own, with one rank. One for all of them starts nothing anywhere
until the last host has let it in, and gives up all for the sake of one; and MPICH's hands standard
input to the first rank only.

Tried with Open MPI 4.1.4 and MPICH 4.0.2, over ssh. What a rank has in its environment is the
implementation's affair: MPICH hands on all that is set here.
"""

import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import HOST, NOT_PLACED, Answer, line, quoted
from musadoctor.fleet.carry.each import FANOUT, Way, carry_to_each
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.fleet.carry.ssh import recognised
from musadoctor.system import Ran

PROGRAMS = ("mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec", "mpiexec.hydra")
OPEN_MPI = ("Open MPI", "OpenRTE", "PRRTE")
"""One of these is in what its ``--version`` prints."""
LONGEST_VERSION = 64 << 10
LINGERING = 'sh -c "$0" && exec cat >/dev/null'
"""Runs the command that follows, and ends when its input does: when we have the answer. With its
last rank Open MPI's mpirun ends too, and loses what it has not yet printed of a long one."""
AS_ROOT = "attempt to run as root"
_RULE = re.compile(r"^-{20,}$", re.MULTILINE)
"""Open MPI draws one above and below what it has to say."""
_TRACE = re.compile(r"^\[(?:mpiexec|proxy\S*)@.*\n?", re.MULTILINE)
"""Lines in which MPICH tells where in its source it gave up."""


class Mpi(NamedTuple):
    """Hosts on which ``mpirun`` can start ranks."""

    names: tuple[str, ...]
    options: tuple[str, ...] = ()
    """More of mpirun's arguments."""
    fanout: int = FANOUT

    @property
    def name(self) -> str:
        """``mpi``."""
        return "mpi"

    def hosts(self) -> Sequence[str]:
        """The names.

        Raises:
            EngineError: one of them is no name of a host, or is there twice.
        """
        seen = set[str]()
        for name in self.names:
            # mpirun would take ``a:4`` for four ranks.
            if not HOST.fullmatch(name) or ":" in name or name.startswith("-"):
                raise EngineError(f"{quoted(name)} is no name of a host")
            if name in seen:
                raise EngineError(f"{name} is to be asked more than once")
            seen.add(name)
        return self.names

    def only(self, hosts: Sequence[str]) -> "Mpi":
        """The same for some of the hosts, all at once."""
        return self._replace(names=tuple(hosts), fanout=max(1, len(hosts)))

    def address(self, host: str) -> str:
        """Its name: that is what MPI goes by."""
        return host

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Ask every host, ``fanout`` at a time; each is told of as soon as it has answered.

        Raises:
            EngineError: there is no mpirun here, or it cannot bring musadoctor along.
        """
        hosts = self.hosts()
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise EngineError(
                "mpirun is not installed here: load the site's MPI module, or install it"
            )
        open_mpi = any(word in _version(program, cancelled) for word in OPEN_MPI)
        if errand.zipapp is not None and not (open_mpi or cancelled.is_set()):
            # MPICH gives up where a rank reads slower than we write.
            raise EngineError(
                f"--bring needs Open MPI's mpirun, and {program} is another: "
                "install musadoctor on the hosts, or reach them by ssh"
            )
        # It ties a rank to one processor, and the report would be one on that.
        unbound = ("--bind-to", "none") if open_mpi else ()
        # Where mpirun is ended, it leaves what it has written here; and one that ends may take a
        # folder away that another is about to write in.
        with tempfile.TemporaryDirectory(prefix="musadoctor-", ignore_cleanup_errors=True) as own:
            ways = {
                # The options that MPI's standard gives to mpiexec.
                host: Way(
                    (
                        *(program, *self.options, *unbound),
                        *("-n", "1", "-host", host, "-wdir", "/", "sh", "-c", LINGERING),
                    ),
                    partial(_failed, host),
                    {
                        # Else gpu1.a and gpu1.b are both gpu1.
                        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
                        "OMPI_MCA_orte_local_tmpdir_base": tempfile.mkdtemp(dir=own),
                    },
                )
                for host in hosts
            }
            carry_to_each(ways, self.fanout, errand, arrived, cancelled)


def _version(program: str, cancelled: threading.Event) -> str:
    """What a program says of itself."""
    said = bytearray()

    def heard(piece: bytes) -> bool:
        said.extend(piece)
        return len(said) <= LONGEST_VERSION

    runner.stream([program, "--version"], limit=CONNECT_SECONDS, cancelled=cancelled, heard=heard)
    return said.decode("utf-8", "replace")


def _failed(host: str, ran: Ran) -> Answer | None:
    """Why mpirun could start no rank, where it says so."""
    if ran.status == "ok":
        return None
    if AS_ROOT in ran.err:
        reason = "mpirun runs nothing as root unless it is told to: add -- --allow-run-as-root"
        return Answer(host, None, NOT_PLACED, reason)
    # It starts ranks by ssh where no scheduler does; and MPICH waits on for ever where ssh fails.
    if answer := recognised(host, ran.err, trial=f"ssh {host} true"):
        return answer
    if ran.status == "timed out":
        return None
    return Answer(host, None, NOT_PLACED, line(f"mpirun: {_words(ran)}"))


def _words(ran: Ran) -> str:
    """What mpirun says first; what follows are guesses at the reason."""
    parts = [_TRACE.sub("", part).strip() for part in _RULE.split(ran.err)]
    first = next(filter(None, parts), "").partition("\n\n")[0]
    return first or ran.err.strip().partition("\n")[0] or ran.note
