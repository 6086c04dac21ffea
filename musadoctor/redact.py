"""Take out of a text what tells who or where a host is.

Home folders become ``~`` (so that a command can still be copied), other people's homes
``/home/user``; host names, IP and MAC addresses, UUIDs and serial numbers become a word for what
they were. Keys are never redacted, nor is a user's bare name in running text: it may be ``root``
or ``musa``, and those words mean other things too. To redact twice changes nothing.
"""

import json
import re
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

UUID = "00000000-0000-0000-0000-000000000000"

_UUID = re.compile(r"(?i)(?<![a-z0-9])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![a-z0-9])")
_SERIAL = re.compile(
    r"(?i)(serial(?:[ _-]?(?:number|no\.?))?[\"']?[ \t]*[:=][ \t]*[\"']?)"
    r"(?!N/A\b|null\b|None\b)[^\s\"',;}]+"
)
_SERIAL_KEY = re.compile(r"(?i).*serial(?:[ _-]?(?:number|no\.?))?")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"'<>]*@")
_HOMES = re.compile(r"/(home|Users)/[^/\s:\"',;)\]}<>]+")
_MAC = re.compile(r"(?i)(?<![\w:])(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}(?![\w:])")
# Global, private and link-local addresses begin so; a PCI address or a time of day never does.
_IPV6 = re.compile(
    r"(?i)(?<![\w:.])[23f][0-9a-f]{3}"
    r"(?:(?::[0-9a-f]{1,4}){7}|(?::[0-9a-f]{1,4}){0,6}::(?:[0-9a-f]{1,4}:)*(?:[0-9a-f]{1,4})?)"
    r"(?![\w:])"
)
# 10.3.2.106 is an address, and the number of a curand: what stands before it decides. One that
# begins with a single digit, as 9.1.0.70, is a version unless it stands in a URL or has a port.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(
    r"(?<![\w.+~<>-])(?<![=~<>!]=)(?:(?<=://)|(?=[\d.]{7,15}:\d)|(?=\d\d))"
    rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![\w-]|\.\w)"
)
_FOUR_NUMBERS = re.compile(r"\d+(?:\.\d+){3}\s*")
_NAMED = re.compile(r"(?i)(?:version|nccl|\b(?:nvidia|cud)[\w-]*|[-_]cu\d+)[^\w\n]{1,60}\Z")
_KEPT_ADDRESSES = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - not bound to, only left readable

_SYSTEM_FOLDER = re.compile(
    r"|/root|/(?:home|mnt|opt|run|srv|tmp|var)|/(?:bin|boot|dev|etc|lib\w*|proc|sbin|sys|usr)(?:/.*)?"
)
_TELLING_NOTHING = {
    *("localhost", "host", "user", "root", "node", "server", "master", "worker", "test", "linux"),
    *("ubuntu", "debian", "docker", "python", "torch", "pytorch", "cuda", "musa", "mthreads"),
    *("video", "render", "redacted"),
}
_SHORTEST_NAME = 4

LONGEST_KEPT = 1000
"""Characters of a text whose redaction is remembered."""

Value = TypeVar("Value")


class Redaction(NamedTuple):
    """What is known of the host that a text comes from."""

    home: str | None
    host_name: str | None

    def text(self, text: str) -> str:
        """``text`` without private data."""
        # One reason stands in many places of a report; a tool's whole output only once.
        return (_redacted if len(text) <= LONGEST_KEPT else _redacted.__wrapped__)(self, text)

    def without_names(self, text: str) -> str:
        """``text`` without home folders and the host's name."""
        if folder := self._folder:
            for written in dict.fromkeys((folder, json.dumps(folder)[1:-1])):
                text = re.sub(rf"(?<![\w.~-]){re.escape(written)}(?![\w~-]|\.\w)", "~", text)
        text = _HOMES.sub(r"/\1/user", text)
        full = self.host_name or ""
        for name in dict.fromkeys((full, full.partition(".")[0])):
            known = name.isdigit() or name.lower() in _TELLING_NOTHING
            if len(name) >= _SHORTEST_NAME and not known:
                domain = r"(?:\.[A-Za-z][\w-]*)*"
                text = re.sub(rf"(?<![\w.-]){re.escape(name)}{domain}(?![\w-])", "host", text)
        return text

    def value(self, value: Value, key: str = "") -> Value:
        """A JSON value with all its texts redacted, keys left alone.

        ``key`` is what the value is called: of a serial number or a group, the text alone does not
        tell what it is.
        """
        redacted: object = value
        if isinstance(value, str):
            redacted = self._called(key, value)
        elif isinstance(value, dict):
            items = cast("dict[str, object]", value).items()
            redacted = {name: self.value(inner, name) for name, inner in items}
        elif isinstance(value, (list, tuple)):
            redacted = [self.value(inner, key) for inner in cast("list[object]", value)]
        return cast("Value", redacted)

    def _called(self, key: str, text: str) -> str:
        if _SERIAL_KEY.fullmatch(key) and text not in {"", "N/A"}:
            return "REDACTED"
        if text and key in {"group", "groups"} and text == self._user:
            return "user"
        if key.lower().endswith("version") and _FOUR_NUMBERS.fullmatch(text):
            return text
        return self.text(text)

    @property
    def _folder(self) -> str:
        """The home folder, empty where it is the system's."""
        folder = (self.home or "").rstrip("/")
        return "" if _SYSTEM_FOLDER.fullmatch(folder) else folder

    @property
    def _user(self) -> str:
        name = self._folder.rpartition("/")[2]
        return "" if name.lower() in _TELLING_NOTHING else name


@lru_cache(4096)
def _redacted(redaction: Redaction, text: str) -> str:
    return _without_addresses(redaction.without_names(text))


def _without_addresses(text: str) -> str:
    text = _CREDENTIALS.sub("", text)
    text = _UUID.sub(UUID, text)
    text = _SERIAL.sub(r"\1REDACTED", text)
    text = _MAC.sub("00:00:00:00:00:00", text)
    text = _IPV6.sub("::1", text)
    return _IPV4.sub(_without_address, text)


def _without_address(found: "re.Match[str]") -> str:
    before = found.string[max(0, found.start() - 100) : found.start()]
    return found[0] if found[0] in _KEPT_ADDRESSES or _NAMED.search(before) else "x.x.x.x"
