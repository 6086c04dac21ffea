"""What Ansible tells of each host, the moment it knows: a line of JSON from a callback of ours.

Ansible's own ways to write results do not do: ``--tree`` ends with ansible-core 2.23, and what it
prints is for people.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from musadoctor.fleet.answer import (
    DAMAGED,
    REFUSED,
    TIMED_OUT,
    TOO_LARGE,
    UNREACHABLE,
    Answer,
    line,
)
from musadoctor.fleet.carry.each import last
from musadoctor.fleet.carry.frames import FLOOD, Frames
from musadoctor.fleet.carry.ssh import not_reached
from musadoctor.system import Ran

PLUGIN = "musadoctor_results"
"""The callback's name; its file's is the same, with ``.py``."""
MARK = b"musadoctor-ansible "
LONGEST_WORDS = 16 << 10
"""Characters of what else is said of a host, the last."""
SOURCE = f"""\
import json
import sys

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "{PLUGIN}"

    def tell(self, result, state):
        # Both have other names before ansible-core 2.19.
        host = getattr(result, "host", None) or result._host
        told = getattr(result, "result", None) or result._result
        out = str(told.get("stdout") or "")
        words = [str(told.get(key) or "") for key in ("stderr", "msg")]
        said = [host.get_name(), state, "timedout" in told, len(out), out[:{FLOOD}]]
        said += [text[-{LONGEST_WORDS}:] for text in words]
        sys.stdout.write("{MARK.decode()}" + json.dumps(said) + "\\n")
        sys.stdout.flush()

    def v2_runner_on_ok(self, result):
        self.tell(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.tell(result, "failed")

    def v2_runner_on_unreachable(self, result):
        self.tell(result, "unreachable")

    def v2_runner_on_skipped(self, result):
        self.tell(result, "skipped")
"""
"""The callback, for Ansible's interpreter."""
_TERMINATED = "failed to execute in the expected time frame"
"""How Ansible says that it gave a host up, before ansible-core 2.19."""
_UNREACHED = "Failed to connect to the host"
"""How it begins where a host was lost half-way, which those count as a failure of the task."""
_NOT_ALLOWED = re.compile(
    r"(?:missing|incorrect|invalid) \S+ password|password is required", re.IGNORECASE
)
"""What becoming another user ends with."""

_WORDS = tuple(
    re.compile(rf"^{begin} *(?P<said>.+(?:\n(?!\[)\S.*)*)", re.MULTILINE)
    # Before 2.19 long ones are broken into lines.
    for begin in (r"(?:\[ERROR\]:|ERROR!|ansible: error:)", r"\[WARNING\]:")
)


class Told(NamedTuple):
    """What Ansible tells of a host."""

    host: str
    """As the inventory calls it."""
    state: str
    """``ok``, ``failed``, ``unreachable`` or ``skipped``."""
    timed_out: bool
    """Whether Ansible gave it up."""
    length: int
    """Characters that came on standard output; of more than ``FLOOD`` the rest is not here."""
    out: str
    err: str
    message: str
    """Ansible's own words."""


def listener(told: Callable[[Told], None]) -> Callable[[bytes], bool]:
    """Takes what ``ansible`` prints, piece by piece, and picks out the callback's lines."""
    pieces: list[bytes] = []

    def heard(piece: bytes) -> bool:
        pieces.append(piece)
        if b"\n" in piece:
            *lines, rest = b"".join(pieces).split(b"\n")
            pieces[:] = [rest]
            for text in lines:
                if text.startswith(MARK):
                    told(Told(*cast("list[Any]", json.loads(text[len(MARK) :]))))
        return True

    return heard


def answer(told: Told, nonce: str, *, limit: int, trial: str) -> Answer:
    """What comes of a host; ``limit`` is what it had, in seconds, and ``trial`` what may be typed.

    The host is who Ansible says it is, whatever it calls itself.
    """
    frames = Frames(nonce)
    for found in frames.feed(told.out.encode("utf-8", "replace") + b"\n"):
        return found._replace(host=told.host)
    kind, reason = DAMAGED, "the end of the answer is missing"
    message = told.message.removeprefix("Task failed: ")
    if told.timed_out or _TERMINATED in message:
        kind, reason = TIMED_OUT, f"no answer in {limit} s"
    elif told.state == UNREACHABLE or message.startswith(_UNREACHED):
        return not_reached(told.host, message, trial=trial)
    elif told.length > len(told.out):
        kind, reason = TOO_LARGE, f"{told.length >> 20} MiB came, and no report"
    elif not frames.begun:
        said = last(frames.other) or line(message) or last(told.err) or "nothing"
        reason = f"no answer; it said: {said}"
        if _NOT_ALLOWED.search(message) or _NOT_ALLOWED.search(frames.other):
            kind, reason = REFUSED, f"Ansible may not become another user there: {said}"
    return Answer(told.host, None, kind, reason)


def words(ran: Ran) -> str:
    """Ansible's own about a run, in one line."""
    if ran.status == "timed out":
        return ran.note
    for pattern in _WORDS:
        found = pattern.search(ran.err)
        if found:
            return line(found["said"])
    return line(ran.err.strip().rpartition("\n")[2]) or ran.note or "it said nothing"
