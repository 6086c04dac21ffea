"""Hosts over OpenSSH: the user's own client, with its configuration, keys, agents and jump hosts.

Nothing of the client's care is loosened: a host whose key is not known is not asked.
"""

import re
import secrets
import shlex
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import (
    DAMAGED,
    HOST,
    REFUSED,
    TIMED_OUT,
    TOO_LARGE,
    UNREACHABLE,
    Answer,
    line,
    quoted,
)
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import from_stdin, script
from musadoctor.system import Ran

FANOUT = 32
"""Clients that run at one time."""
FLOOD = 24 << 20
"""Bytes that a host may print; the longest answer with its marks has two thirds of it."""
OPTIONS = (
    "-T",
    # Nobody is there to be asked for a password.
    "-oBatchMode=yes",
    f"-oConnectTimeout={CONNECT_SECONDS}",
    # A lost link is noticed within 15 s.
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    # A connection that is there may be shared, but others must not depend on ours.
    "-oControlMaster=no",
    # What went wrong is told on this level.
    "-oLogLevel=INFO",
)
FAILED = 255
"""The client's exit code where it is the connection that failed."""


LONGEST_SETTINGS = 1 << 20
HOST_NAME = re.compile(r"^hostname (\S+)$", re.MULTILINE)
"""In what ``ssh -G`` prints."""


class Ssh(NamedTuple):
    """Hosts that ``ssh NAME`` reaches."""

    names: tuple[str, ...]
    """As ssh takes them: ``gpu017``, ``root@gpu017``."""
    fanout: int = FANOUT
    options: tuple[str, ...] = ()
    """More of the client's own arguments; they win over ours."""

    @property
    def name(self) -> str:
        """``ssh``."""
        return "ssh"

    def hosts(self) -> Sequence[str]:
        """The names, without the user's.

        Raises:
            EngineError: one of them is no name of a host, or is there twice.
        """
        hosts: dict[str, None] = {}
        for name in self.names:
            host = _host(name)
            if not HOST.fullmatch(host):
                raise EngineError(
                    f"{quoted(name)} is no name of a host; its user, port and address have their "
                    "place in ~/.ssh/config"
                )
            if host in hosts:
                raise EngineError(f"{host} is to be asked more than once")
            hosts[host] = None
        return tuple(hosts)

    def only(self, hosts: Sequence[str]) -> "Ssh":
        """The same for some of the hosts, all at once."""
        wanted = set(hosts)
        names = tuple(name for name in self.names if _host(name) in wanted)
        return self._replace(names=names, fanout=max(1, len(names)))

    def address(self, host: str) -> str:
        """What the client's own configuration has for the host's name."""
        name = next(name for name in self.names if _host(name) == host)
        said = bytearray()

        def heard(piece: bytes) -> bool:
            said.extend(piece)
            return len(said) <= LONGEST_SETTINGS

        ssh = shutil.which("ssh") or "ssh"
        runner.stream(
            [ssh, *self.options, "-G", "--", name],
            limit=CONNECT_SECONDS,
            cancelled=threading.Event(),
            heard=heard,
        )
        found = HOST_NAME.search(said.decode("utf-8", "replace"))
        return found[1] if found else host

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Ask every host, ``fanout`` at a time; each is told of as soon as it has answered.

        Raises:
            EngineError: there is no ssh here, or a name is none.
        """
        ssh = shutil.which("ssh")
        if ssh is None:
            raise EngineError("ssh is not installed here: install the OpenSSH client")
        one_by_one = threading.Lock()

        def ask(name: str, host: str) -> None:
            answer = _ask([ssh, *self.options, *OPTIONS, "--", name], host, errand, cancelled)
            if answer is not None:
                with one_by_one:
                    arrived(answer)

        with ThreadPoolExecutor(self.fanout) as pool:
            for _ in pool.map(ask, self.names, self.hosts()):
                pass


def _host(name: str) -> str:
    return name.rpartition("@")[2]


def _ask(
    login: Sequence[str], host: str, errand: Errand, cancelled: threading.Event
) -> Answer | None:
    """What comes of one host; ``None`` where it was not waited for."""
    if cancelled.is_set():
        return None
    nonce = secrets.token_hex(8)
    # We know who speaks: the host cannot call itself otherwise.
    own = {name: variables for name, variables in errand.variables.items() if name == host}
    text = script(
        errand._replace(variables=own),
        nonce,
        name=shlex.quote(host),
        payload="stdin" if errand.zipapp else "installed",
        watched=True,
    )
    frames, answers, seen = Frames(nonce), list[Answer](), 0

    def heard(piece: bytes) -> bool:
        nonlocal seen
        seen += len(piece)
        answers.extend(frames.feed(piece))
        # With the answer the host has done its part; its connection may linger.
        return not answers and seen <= FLOOD

    limit = CONNECT_SECONDS + errand.seconds
    ran = runner.stream(
        [*login, from_stdin(text)],
        limit=limit,
        cancelled=cancelled,
        heard=heard,
        given=text.encode() + (errand.zipapp or b""),
    )
    if answers:
        return answers[0]._replace(host=host)
    return None if cancelled.is_set() else _unanswered(host, frames, ran, limit)


def _unanswered(host: str, frames: Frames, ran: Ran, limit: float) -> Answer:
    """A host that gave no answer, and why."""
    if ran.status == "flooded":
        return Answer(host, None, TOO_LARGE, f"more than {FLOOD >> 20} MiB came, and no report")
    if ran.status == "timed out":
        return Answer(host, None, TIMED_OUT, f"no answer in {limit:g} s")
    if ran.code == FAILED:
        return not_reached(host, ran.err, trial=f"ssh {host} true")
    if frames.begun:
        return Answer(host, None, DAMAGED, "the end of the answer is missing")
    said = _last(frames.other) or _last(ran.err) or ran.note
    return Answer(host, None, DAMAGED, f"no answer; it said: {said or 'nothing'}")


def _last(text: str) -> str:
    return line(text[-2000:].strip().rpartition("\n")[2])


class _Message(NamedTuple):
    """What the client says, in OpenSSH's English: it has no other."""

    pattern: re.Pattern[str]
    kind: str
    sentence: str
    """With the groups of the pattern."""


def _message(pattern: str, kind: str, sentence: str) -> _Message:
    return _Message(re.compile(pattern, re.MULTILINE), kind, sentence)


_MESSAGES = (
    _message(
        r"^Add correct host key in (?P<file>.+) to get rid of this message\.\s*$"
        r"(?:.*\n)*?Host key for (?P<host>\S+) has changed",
        REFUSED,
        "its host key has changed; only where you know why, forget the old one: "
        "ssh-keygen -f {file} -R {host}",
    ),
    _message(
        r"Host key verification failed",
        REFUSED,
        "its host key is not known here; compare it with the host's own, and accept it: {trial}",
    ),
    _message(r"(?P<said>Permission denied \(.*)", REFUSED, "{said} Try: {trial}"),
    _message(r"(?P<said>(?:Too many auth|Received disconnect).*)", REFUSED, "{said}"),
    _message(
        r"Could not resolve hostname (?P<said>.*)",
        UNREACHABLE,
        "its name is not known here: {said}",
    ),
    _message(r"(?P<said>connect to (?:host|address) .*)", UNREACHABLE, "{said}"),
    _message(
        r"(?P<said>(?:kex|ssh)_exchange_identification: .*|Connection .* banner exchange.*)",
        UNREACHABLE,
        "its sshd does not answer: {said}",
    ),
    _message(
        r"(?P<said>Timeout, server .* not responding.*|client_loop: .*|(?:Read|Write|packet).*: .*"
        r"|Connection (?:to .* )?(?:closed|reset) by .*)",
        UNREACHABLE,
        "the connection was lost: {said}",
    ),
)


def not_reached(host: str, said: str, *, trial: str) -> Answer:
    """Why the client could not do what it was asked for; ``trial`` is what a person may type."""
    for message in _MESSAGES:
        found = message.pattern.search(said)
        if found:
            words = {name: line(text) for name, text in found.groupdict().items()}
            # Part of a command; the host itself may have a say in this text.
            words |= {name: shlex.quote(words[name]) for name in words if name != "said"}
            reason = message.sentence.format(trial=trial, **words)
            return Answer(host, None, message.kind, reason)
    return Answer(host, None, UNREACHABLE, _last(said) or "ssh ended without a word")
