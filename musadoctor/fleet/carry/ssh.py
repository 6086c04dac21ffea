"""Hosts over OpenSSH: the user's own client, with its configuration, keys, agents and jump hosts.

Nothing of the client's care is loosened: a host whose key is not known is not asked.
"""

import re
import shlex
import shutil
import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import HOST, REFUSED, UNREACHABLE, Answer, line, quoted
from musadoctor.fleet.carry.each import FANOUT, Way, carry_to_each, last
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.system import Ran

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
        login = (ssh, *self.options, *OPTIONS, "--")
        ways = {
            host: Way((*login, name), partial(_failed, host))
            for name, host in zip(self.names, self.hosts(), strict=True)
        }
        carry_to_each(ways, self.fanout, errand, arrived, cancelled)


def _host(name: str) -> str:
    return name.rpartition("@")[2]


def _failed(host: str, ran: Ran) -> Answer | None:
    if ran.status == "failed" and ran.code == FAILED:
        return not_reached(host, ran.err, trial=f"ssh {host} true")
    return None


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
    reason = last(said) or "ssh ended without a word"
    return recognised(host, said, trial=trial) or Answer(host, None, UNREACHABLE, reason)


def recognised(host: str, said: str, *, trial: str) -> Answer | None:
    """The same where it says something that is known."""
    for message in _MESSAGES:
        found = message.pattern.search(said)
        if found:
            words = {name: line(text) for name, text in found.groupdict().items()}
            # Part of a command; the host itself may have a say in this text.
            words |= {name: shlex.quote(words[name]) for name in words if name != "said"}
            reason = message.sentence.format(trial=trial, **words)
            return Answer(host, None, message.kind, reason)
    return None
