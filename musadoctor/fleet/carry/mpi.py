"""Hosts that ``mpirun`` reaches, a rank on each: what an MPI job would see.

One ``mpirun`` asks all hosts at once. Where it gives up, as it does for the sake of one host, those
that have not answered are asked by one ``mpirun`` each. Tried with Open MPI 4.1; the arguments for
MPICH and its relatives (Hydra) are those of their manual, and were not tried.
"""

import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import DAMAGED, HOST, NOT_PLACED, TIMED_OUT, Answer, line, quoted
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import from_stdin, script
from musadoctor.system import Ran

PROGRAMS = ("mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec", "mpiexec.hydra")
OPEN_MPI = ("(Open MPI)", "(OpenRTE)", "(PRRTE)")
HYDRA = "HYDRA"
MOST_SINGLE = 16
"""Hosts that are asked one by one at the same time."""
LONGEST_VERSION = 64 << 10


class Mpi(NamedTuple):
    """Hosts on which ``mpirun`` can start ranks."""

    names: tuple[str, ...]
    options: tuple[str, ...] = ()
    """More of mpirun's arguments."""

    @property
    def name(self) -> str:
        """``mpi``."""
        return "mpi"

    def hosts(self) -> Sequence[str]:
        """The names.

        Raises:
            EngineError: one of them is no name of a host.
        """
        for name in self.names:
            if not HOST.fullmatch(name) or ":" in name:
                raise EngineError(f"{quoted(name)} is no name of a host")
        return self.names

    def only(self, hosts: Sequence[str]) -> "Mpi":
        """The same for some of the hosts."""
        return self._replace(names=tuple(hosts))

    def address(self, host: str) -> str:
        """Its name: that is what MPI goes by."""
        return host

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Ask all hosts at once, then those that have not answered one by one.

        Raises:
            EngineError: there is no mpirun here, or none that is known.
        """
        hosts = self.hosts()
        launcher = _launcher()
        one_by_one = threading.Lock()

        def told(answer: Answer) -> None:
            with one_by_one:
                left.discard(answer.host)
                arrived(answer)

        left = set(hosts)
        ran = self._ask(launcher, hosts, errand, told, cancelled)
        if ran.status == "timed out" and not cancelled.is_set():
            for host in [one for one in hosts if one in left]:
                told(Answer(host, None, TIMED_OUT, f"mpirun told nothing of it; {ran.note}"))

        def alone(host: str) -> None:
            if cancelled.is_set():
                return
            ran = self._ask(launcher, (host,), errand, told, cancelled)
            if host in left and not cancelled.is_set():
                told(_unanswered(host, ran))

        with ThreadPoolExecutor(MOST_SINGLE) as pool:
            for _ in pool.map(alone, [one for one in hosts if one in left]):
                pass

    def _ask(
        self,
        launcher: "_Launcher",
        hosts: Sequence[str],
        errand: Errand,
        told: Arrived,
        cancelled: threading.Event,
    ) -> Ran:
        """One ``mpirun``; each answer is told when it is whole, by the user's name of the host."""
        nonce = secrets.token_hex(8)
        text = script(
            errand._replace(variables=_by_both_names(errand.variables)),
            nonce,
            name="$(uname -n)",
            payload="stdin" if errand.zipapp else "installed",
            watched=True,
        )
        frames, waited = Frames(nonce), dict.fromkeys(hosts)

        def heard(piece: bytes) -> bool:
            for answer in frames.feed(piece):
                host = hosts[0] if len(hosts) == 1 else _named(answer.host, list(waited))
                if host in waited:
                    del waited[host]
                    told(answer._replace(host=host))
            # With the last answer all is done; ranks may linger.
            return bool(waited)

        return runner.stream(
            [*launcher.command(hosts), *self.options, *("sh", "-c", _inner(text))],
            limit=errand.seconds + CONNECT_SECONDS,
            cancelled=cancelled,
            heard=heard,
            given=text.encode() + (errand.zipapp or b""),
        )


def _inner(text: str) -> str:
    """What a rank runs: the script comes on the standard input of each."""
    return from_stdin(text).partition("sh -c ")[2].strip("'")


class _Launcher(NamedTuple):
    program: str
    open_mpi: bool

    def command(self, hosts: Sequence[str]) -> list[str]:
        """Start one rank on each of the hosts, and give standard input to all."""
        number = str(len(hosts))
        if self.open_mpi:
            slots = ",".join(f"{host}:1" for host in hosts)
            where = ("--host", slots, "--map-by", "ppr:1:node", "-np", number, "-stdin", "all")
        else:
            where = ("-hosts", ",".join(hosts), "-ppn", "1", "-n", number, "-s", "all")
        return [self.program, *where]


def _launcher() -> _Launcher:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise EngineError("mpirun is not installed here: load the site's MPI module, or install it")
    said = bytearray()

    def heard(piece: bytes) -> bool:
        said.extend(piece)
        return len(said) < LONGEST_VERSION

    never = threading.Event()
    ran = runner.stream([program, "--version"], limit=CONNECT_SECONDS, cancelled=never, heard=heard)
    version = said.decode("utf-8", "replace")
    if HYDRA in version:
        return _Launcher(program, open_mpi=False)
    if any(word in version for word in OPEN_MPI):
        return _Launcher(program, open_mpi=True)
    first = line(version.strip().partition("\n")[0]) or line(ran.err) or ran.note
    raise EngineError(f"{program} is neither Open MPI nor MPICH: {first or 'it says nothing'}")


def _by_both_names(variables: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """A host calls itself by its short name or by its full one, whatever the user called it."""
    short = {host.partition(".")[0]: own for host, own in variables.items()}
    return {**short, **variables}


def _named(own: str, hosts: Sequence[str]) -> str:
    """The user's name of the host that calls itself ``own``; ``""`` where none or many fit."""
    if own in hosts:
        return own
    short = own.partition(".")[0]
    fitting = [host for host in hosts if short == host.partition(".")[0]]
    return fitting[0] if len(fitting) == 1 else ""


def _unanswered(host: str, ran: Ran) -> Answer:
    """A host that was asked alone, and mpirun's reason."""
    if ran.status == "timed out":
        return Answer(host, None, TIMED_OUT, ran.note)
    if ran.status == "ok":
        return Answer(host, None, DAMAGED, "the rank has ended without an answer")
    said = [text for text in map(str.strip, ran.err.splitlines()) if text.strip("-")]
    return Answer(host, None, NOT_PLACED, line(f"mpirun: {said[0] if said else ran.note}"))
