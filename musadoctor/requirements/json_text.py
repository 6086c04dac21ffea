"""JSON read member by member: with the place of each, and never all of it in memory."""

import json
import re
from collections.abc import Generator
from typing import cast

from musadoctor.requirements.broken import BrokenError

Member = tuple[tuple[str, ...], int, object]

_BLANK = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


def members(text: str, depth: int) -> Generator[Member, None, int]:
    """The members of a text's object that stand ``depth`` objects deep, with keys and offset.

    What ends less deep, because it is no object, is told as well.

    Raises:
        BrokenError: from where on it is no JSON; what came before was told.
    """
    at = _blank(text, 0)
    if text[at : at + 1] != "{":
        raise BrokenError("no valid JSON: it begins with no object", _line(text, at))
    end = _blank(text, (yield from _object(text, at, (), depth)))
    if end != len(text):
        raise BrokenError("no valid JSON: something follows its end", _line(text, end))
    return end


def _object(
    text: str, start: int, around: tuple[str, ...], depth: int
) -> Generator[Member, None, int]:
    at = _blank(text, start + 1)
    if text[at : at + 1] == "}":
        return at + 1
    while True:
        key, end = _value(text, at)
        if not isinstance(key, str):
            raise BrokenError("no valid JSON: a key is no string", _line(text, at))
        value_at = _blank(text, _sign(text, end, ":"))
        keys = (*around, key)
        if depth > 1 and text[value_at : value_at + 1] == "{":
            end = yield from _object(text, value_at, keys, depth - 1)
        else:
            value, end = _value(text, value_at)
            yield keys, at, value
        at = _blank(text, end)
        if text[at : at + 1] == "}":
            return at + 1
        at = _blank(text, _sign(text, at, ","))


def _sign(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if text[at : at + 1] != sign:
        raise BrokenError(f"no valid JSON: a {sign!r} is missing", _line(text, at))
    return at + 1


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        return cast("tuple[object, int]", _decode(text, at))
    except RecursionError:
        raise BrokenError("JSON that is nested too deeply to be read", _line(text, at)) from None
    except json.JSONDecodeError as error:
        raise BrokenError(f"no valid JSON: {error.msg}", error.lineno) from None
    except ValueError:  # a number of thousands of digits
        raise BrokenError("no valid JSON: a number too long", _line(text, at)) from None


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return 1 + text.count("\n", 0, at)
