"""Take out of a text what tells who or where a host is.

Home folders become ``~`` (so that a command can still be copied), other people's homes
``/home/user``; host names, IP and MAC addresses, UUIDs and serial numbers become a word for what
they were. Only values are redacted, never keys, and never a user's bare name: it may be ``root``
or ``musa``, and those words mean other things too.
"""

import re
from typing import NamedTuple, TypeVar

UUID = "00000000-0000-0000-0000-000000000000"

_UUID = re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SERIAL = re.compile(r"(?i)(serial[ _]?(?:number|no\.?)?\"?\s*[:=]\s*\"?)(?!N/A)[\w-]{4,}")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@:]+(?::[^/\s@]*)?@")
_HOMES = re.compile(r"(?<![\w.~-])/(home|Users)/(?!user\b)[^/\s:\"',;)]+")
# Not a version number: those follow a name, "==", "-" or "Version:".
_IPV4 = re.compile(r"(?<![\w.=+~<>-])(?<!ersion: )(?<!ersion:)(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")
_IPV6 = re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4})+(?![\w:.])")
_MAC = re.compile(r"(?i)(?<![\w:-])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:-])")
_PUBLIC_ADDRESSES = {"127.0.0.1", "0.0.0.0"}  # noqa: S104 - not bound to, only left readable
_TELLING_NOTHING = {"localhost", "ubuntu", "debian", "linux", "docker", "root", "musa", "host"}

Value = TypeVar("Value")


class Redaction(NamedTuple):
    """What is known of the host that a text comes from."""

    home: str | None
    host_name: str | None

    def text(self, text: str) -> str:
        """``text`` without private data."""
        if self.home and self.home not in {"/", "/root"}:
            text = re.sub(rf"(?<![\w.~-]){re.escape(self.home)}(?=/|$|[\s:\"',;)])", "~", text)
        text = _HOMES.sub(r"/\1/user", text)
        if self.host_name and self.host_name.lower() not in _TELLING_NOTHING:
            for name in dict.fromkeys((self.host_name, self.host_name.partition(".")[0])):
                text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "host", text)
        text = _CREDENTIALS.sub("", text)
        text = _UUID.sub(UUID, text)
        text = _SERIAL.sub(r"\1REDACTED", text)
        text = _MAC.sub("00:00:00:00:00:00", text)
        text = _IPV6.sub("::1", text)
        return _IPV4.sub(lambda m: m[0] if m[0] in _PUBLIC_ADDRESSES else "x.x.x.x", text)

    def value(self, value: Value) -> Value:
        """A JSON value with all its texts redacted, keys left alone."""
        redacted: object = value
        if isinstance(value, str):
            redacted = self.text(value)
        elif isinstance(value, dict):
            redacted = {key: self.value(inner) for key, inner in value.items()}
        elif isinstance(value, (list, tuple)):
            redacted = [self.value(inner) for inner in value]
        return redacted  # type: ignore[return-value]
