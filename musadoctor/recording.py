"""Keep a machine's raw answers, and answer from them on another machine or day.

A recording is one JSON object: a header, and for each kind of question a table from its subject
to the answer. Answers are kept as the machine gave them, so that a later version of the probes
can learn more from an old recording.
"""

# ruff: noqa: D102 - System tells what each question means

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from musadoctor.commands import Command
from musadoctor.redact import Redaction
from musadoctor.system import (
    NOT_THERE,
    UNRECORDED,
    Elf,
    Failure,
    Found,
    Platform,
    Ran,
    Resources,
    Stat,
    System,
)

FORMAT = "musadoctor-recording"
VERSION = 1
MOST_BYTES = 64 << 20
T = TypeVar("T")
Record = Ran | Stat | Found | Elf | Platform | Resources
Answer = str | None | tuple[str, ...] | dict[str, str] | Failure | Record


class RecordingError(ValueError):
    """A file is no recording that this version can answer from."""


class Recorder:
    """A system that asks another one, each question once, and keeps the answers.

    Safe for several threads: who asks what is being asked waits for the same answer.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._asking: dict[tuple[str, str], threading.Lock] = {}
        self._answers: dict[tuple[str, str], Answer] = {}

    def _once(self, kind: str, subject: str, ask: Callable[[], T]) -> T:
        key = (kind, subject)
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:
            if key in self._answers:
                return cast("T", self._answers[key])
            answer = ask()
            with self._lock:
                self._answers[key] = cast("Answer", answer)
            return answer

    def run(self, command: Command) -> Ran:
        return self._once("runs", command.key, lambda: self._system.run(command))

    def read(self, path: str) -> str | Failure:
        return self._once("files", path, lambda: self._system.read(path))

    def list(self, path: str) -> tuple[str, ...] | Failure:
        return self._once("folders", path, lambda: self._system.list(path))

    def stat(self, path: str) -> Stat | Failure:
        return self._once("stats", path, lambda: self._system.stat(path))

    def env(self, name: str) -> str | Failure | None:
        return self._once("variables", name, lambda: self._system.env(name))

    def find(self, name: str) -> Found | Failure:
        return self._once("programs", name, lambda: self._system.find(name))

    def elf(self, path: str) -> Elf | Failure:
        return self._once("libraries", path, lambda: self._system.elf(path))

    def cached(self, prefix: str) -> dict[str, str] | Failure:
        return self._once("loader_cache", prefix, lambda: self._system.cached(prefix))

    def platform(self) -> Platform | Failure:
        return self._once("platform", "", self._system.platform)

    def resources(self) -> Resources | Failure:
        return self._once("resources", "", self._system.resources)

    def answers(self) -> dict[str, dict[str, Any]]:
        """All answers so far as a JSON value: kind, subject, answer."""
        with self._lock:
            kept = sorted(self._answers.items())
        tables: dict[str, dict[str, Any]] = {}
        for (kind, subject), answer in kept:
            tables.setdefault(kind, {})[subject] = _encode(answer)
        return tables


def write_recording(
    answers: Mapping[str, dict[str, Any]],
    *,
    musadoctor: str,
    taken: str,
    redaction: Redaction | None,
    verify: Mapping[str, object] | None = None,
) -> str:
    """The text of a recording; with a ``redaction``, without private data.

    ``verify`` says what was chosen of a run of ``verify``, where the answers are those of one.

    Subjects are redacted as well: they are paths and command lines, and the probes will ask for
    them by what the redacted answers name.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "musadoctor": musadoctor,
        "taken": taken,
        "redacted": redaction is not None,
        **({} if verify is None else {"verify": verify}),
    }
    body = dict(answers)
    if redaction is not None:
        body = {
            kind: {
                redaction.text(subject): redaction.value(answer, subject)
                for subject, answer in table.items()
            }
            for kind, table in answers.items()
        }
        for platform in body.get("platform", {}).values():
            platform["host_name"] = None
    text = json.dumps({**header, "answers": body}, ensure_ascii=False, indent=1) + "\n"
    # Python's way with file names that are no UTF-8; no file takes them as they are.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


class Recording:
    """A machine of another place or day."""

    def __init__(self, text: str, name: str) -> None:
        """Read a recording's text; ``name`` is what errors call it.

        Raises:
            RecordingError: with one sentence that says what was expected.
        """
        try:
            loaded: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordingError(f"{name}: expected a recording, found no JSON: {error}") from None
        data = _object(loaded)
        if data is None or data.get("format") != FORMAT:
            raise RecordingError(
                f'{name}: expected a recording (a JSON object with "format": "{FORMAT}"), '
                "as `musadoctor capture` writes it"
            )
        version = data.get("version")
        if version != VERSION:
            found = version if type(version) is int else _WORDS[type(version)]
            raise RecordingError(f"{name}: expected recording version {VERSION}, found {found}")
        answers = _object(data.get("answers"))
        if answers is None:
            raise RecordingError(f'{name}: expected "answers" to be an object')
        taken = data.get("taken")
        self.taken = taken if isinstance(taken, str) else "on an unknown day"
        self.verify = _object(data.get("verify"))
        # A host that was written by hand says all that is there.
        self._called = "recording"
        self._closed = data.get("unlisted") == "not there"
        self._answers = _decode_all(answers, name)

    @classmethod
    def of_answers(
        cls,
        tables: Mapping[str, Mapping[str, object]],
        *,
        closed: bool,
        called: str = "recording",
    ) -> "Recording":
        """A machine that gives these answers; ``closed`` means that all else is not there."""
        recording = cls.__new__(cls)
        recording.taken = ""
        recording.verify = None
        recording._called = called  # noqa: SLF001
        recording._closed = closed  # noqa: SLF001 - its own
        recording._answers = {  # noqa: SLF001
            (kind, subject): cast("Answer", answer)
            for kind, table in tables.items()
            for subject, answer in table.items()
        }
        return recording

    def _recall(self, kind: str, subject: str, absent: T) -> T | Failure:
        try:
            return cast("T", self._answers[kind, subject])
        except KeyError:
            if self._closed:
                return absent
            return Failure(UNRECORDED, f"{subject or kind}: not in this {self._called}")

    def run(self, command: Command) -> Ran:
        missing = Ran("not there", note=f"no {command.program}")
        ran = self._recall("runs", command.key, missing)
        return Ran(ran.kind, note=ran.detail) if isinstance(ran, Failure) else ran

    def read(self, path: str) -> str | Failure:
        return self._recall("files", path, cast("str", _no(path)))

    def list(self, path: str) -> tuple[str, ...] | Failure:
        return self._recall("folders", path, cast("tuple[str, ...]", _no(path)))

    def stat(self, path: str) -> Stat | Failure:
        return self._recall("stats", path, cast("Stat", _no(path)))

    def env(self, name: str) -> str | Failure | None:
        return self._recall("variables", name, cast("str | None", None))

    def find(self, name: str) -> Found | Failure:
        return self._recall("programs", name, Found(""))

    def elf(self, path: str) -> Elf | Failure:
        return self._recall("libraries", path, cast("Elf", _no(path)))

    def cached(self, prefix: str) -> dict[str, str] | Failure:
        none: dict[str, str] = {}
        return self._recall("loader_cache", prefix, none)

    def platform(self) -> Platform | Failure:
        return self._recall("platform", "", cast("Platform", _no("platform")))

    def resources(self) -> Resources | Failure:
        return self._recall("resources", "", cast("Resources", _no("resources")))


def _no(path: str) -> Failure:
    return Failure(NOT_THERE, f"no {path}")


def _encode(answer: Answer) -> object:
    if isinstance(answer, Failure):
        return {"failure": answer.kind, "detail": answer.detail}
    if isinstance(answer, Record):
        # Only what differs from the usual, so that a person can read it.
        defaults = type(answer)._field_defaults
        return {k: v for k, v in answer._asdict().items() if k not in defaults or v != defaults[k]}
    return answer


_RECORDS: dict[str, type[Record]] = {
    "runs": Ran,
    "stats": Stat,
    "programs": Found,
    "libraries": Elf,
    "platform": Platform,
    "resources": Resources,
}
_KINDS = {*_RECORDS, "files", "folders", "variables", "loader_cache"}


def _decode_all(tables: dict[str, object], name: str) -> dict[tuple[str, str], Answer]:
    decoded: dict[tuple[str, str], Answer] = {}
    for kind, table in tables.items():
        if kind not in _KINDS:
            continue  # a question of a newer version
        if not isinstance(table, dict):
            raise RecordingError(f"{name}: expected answers.{kind} to be an object")
        for subject, answer in cast("dict[str, object]", table).items():
            try:
                decoded[kind, subject] = _decode(kind, answer)
            except TypeError as error:  # noqa: PERF203 - it has to name the subject
                where = f"answers.{kind}[{json.dumps(subject)}]"
                raise RecordingError(f"{name}: {where}: {error}") from None
    return decoded


def _decode(kind: str, answer: object) -> Answer:
    fields = _object(answer)
    if fields is not None and "failure" in fields:
        return Failure(_text(fields["failure"]), _text(fields.get("detail")))
    if kind == "files":
        return _text(answer)
    if kind == "variables":
        return None if answer is None else _text(answer)
    if kind == "folders":
        return _texts(answer)
    if fields is None:
        raise _expected("an object", answer)
    if kind == "loader_cache":
        return {key: _text(value) for key, value in fields.items()}
    return _record(_RECORDS[kind], fields)


def _record(record: type[Record], fields: dict[str, object]) -> Answer:
    """Build a record from JSON, each field checked against its annotation."""
    known: dict[str, Any] = {}
    for field, annotation in record.__annotations__.items():
        if field in fields:
            known[field] = _field(field, annotation, fields[field])
        elif field not in record._field_defaults:
            raise TypeError(f'expected "{field}", found none')
    return record(**known)


def _field(field: str, annotation: Any, value: object) -> object:  # noqa: ANN401 - typing's own
    if annotation == tuple[str, ...]:
        return _texts(value)
    if annotation is float and type(value) is int:
        return value
    if isinstance(value, bool) == (annotation is bool) and isinstance(value, annotation):
        return value
    raise _expected(f'"{field}" to be {_WORDS[annotation]}', value)


def _object(value: object) -> dict[str, object] | None:
    """A JSON value where it is an object."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _expected("a string", value)
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _expected("a list of strings", value)
    return tuple(_text(item) for item in cast("list[object]", value))


_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    str | None: "a string or null",
    int | None: "an integer or null",
    dict: "an object",
    list: "a list",
    type(None): "null",
}


def _expected(what: str, found: object) -> TypeError:
    return TypeError(f"expected {what}, found {_WORDS[type(found)]}")


def read_recording(path: str) -> Recording:
    """Read a recording's file.

    Raises:
        RecordingError: the file cannot be read, is too large, or is no recording.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise RecordingError(f"{path}: larger than {MOST_BYTES >> 20} MiB, so no recording")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RecordingError(f"{path}: expected a recording, found no UTF-8 text") from None
    return Recording(text, path)
