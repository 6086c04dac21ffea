"""Who and where: the users and hosts that prompts, logs and ``id`` name, to be redacted."""

import re
from collections.abc import Sequence

from musadoctor.redact import Redaction
from musadoctor.transcript.text import Line

MOST = 16
"""So many users and hosts are looked for."""

_NAMED = (
    re.compile(r"\A(?:\([\w.-]{1,40}\))?[ \t\[]*(?P<user>[\w.-]{1,40})@(?P<host>[\w.-]{1,60})"),
    re.compile(r"(?<=[ ])(?P<host>[\w.-]{1,64}) kernel:(?P<user>)"),
    re.compile(r"Linux (?P<host>[\w.-]{1,64}) \d{1,2}\.\d(?P<user>)"),
    re.compile(r"(?i:u?id)=\d{1,10}\((?P<user>[\w.-]{1,40})\)(?P<host>)"),
)


def people(lines: Sequence[Line]) -> tuple[Redaction, ...]:
    """What must not be told of the machines in a text."""
    found: dict[Redaction, None] = {}
    for line in lines:
        for pattern, text in zip(_NAMED, (line.prompt, *[line.text] * 3), strict=True):
            if text and (named := pattern.search(text)):
                home = f"/home/{named['user']}" if named["user"] else None
                found[Redaction(home, named["host"] or None)] = None
        if len(found) >= MOST:
            break
    return tuple(found) or (Redaction(None, None),)
