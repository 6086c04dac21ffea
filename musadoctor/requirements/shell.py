"""The install lines of shell scripts, and of whatever else holds commands of a POSIX shell.

Nothing is run. Variables that the script itself sets are filled in; of the others the text shows
the name. What both branches of an ``if`` do counts, and so does a function's body.
"""

import re
from collections.abc import Callable, Iterator, MutableMapping
from typing import Literal, NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import installers, pip_file

Variables = MutableMapping[str, str]
Where = Callable[[int], str]
"""From a line's number to what an entry's ``where`` says."""

LONGEST_VALUE = 10_000
"""Characters of a variable that is filled in: values that double themselves end here."""
_DEEPEST = 8
_BLANKS = " \t\r\n"
_ENDS = f"{_BLANKS};&|<>()"

_SKIPPED = re.compile(r"(?:[ \t\r]+|\\\r?\n)+")
_PLAIN = {
    _ENDS: re.compile(r"""[^\s'"\\$`;&|<>()]+|[\v\f]+""", re.ASCII),
    _BLANKS: re.compile(r"""[^\s'"\\$`]+|[\v\f]+""", re.ASCII),
    "": re.compile(r"""[^'"\\$`]+"""),
}
"""What needs no second look in a word, by the characters that end one."""
_PLAIN_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|()\n]|&(?!>)")
_REDIRECTION = re.compile(r"\d*(?P<sign><<<|<<-?|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|&>>?")
_NAME = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|[\d@*#?$!-])", re.ASCII)
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?P<array>\[[@*\d]+\])?(?::?(?P<sign>[-+=?])(?P<word>.*))?",
    re.ASCII | re.DOTALL,
)
_CONTINUED = re.compile(r"\\\r?\n")
_BRACKETS = re.compile(r"""[(){}'"\\]""")
_DOUBLE_QUOTED = re.compile(r'(?:[^"\\]+|\\.)*"?', re.DOTALL)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=(?P<value>.*)", re.ASCII | re.DOTALL)
_RESERVED = frozenset(
    (word,) for word in ("if", "then", "elif", "else", "do", "while", "until", "!", "{", "}")
)
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "su"})
_RUNS_TEXT = re.compile(r"-[a-z]*c")
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0"})
_REQUIREMENTS_FILE = re.compile(r"[\w.-]*(?:requirements|constraints)[\w.-]*\.(?:txt|in)")
_CONDA_FILE = re.compile(r"[\w.-]*(?:environment|conda)[\w.-]*\.ya?ml")


class Command(NamedTuple):
    """A simple command of a script."""

    line: int
    """Of its first word, from 1."""
    words: tuple[str, ...]
    """Without quotes, variables filled in, assignments first."""
    text: str
    outputs: tuple[str, ...] = ()
    """The files that it writes to, by ``>``."""
    bodies: tuple[tuple[str, int], ...] = ()
    """Its here-documents: text and first line."""
    inner: tuple[tuple[str, int], ...] = ()
    """The commands in its ``$(...)``: text and line."""


class _Token(NamedTuple):
    kind: Literal["word", "output", "body", "end"]
    start: int
    stop: int
    fields: tuple[str, ...] = ()
    at: int = 0
    """Where a body stands."""


_Inner = list[tuple[str, int]]
"""The text of each command substitution, and where it stands."""


def read(path: str, text: str) -> Iterator[Entry]:
    """What a script's commands install."""
    return script(text, lambda line: f"{path}:{line}", {})


def script(
    text: str,
    where: Where,
    values: Variables,
    *,
    fresh: bool = False,
    scope: str = "",
    depth: int = 0,
) -> Iterator[Entry]:
    """What the commands of a text install. ``values`` are the variables; it learns of new ones."""
    for command in commands(text, values):
        place = where(command.line)
        install = installers.parse(command.words)
        if install:
            yield from installers.entries(install, place, command.text, fresh=fresh, scope=scope)
        else:
            yield from _settings(command, place, fresh=fresh, scope=scope)
        within = [(inner, shifted(where, line)) for inner, line in command.inner]
        within.append((_text_that_it_runs(command.words), _always(place)))
        from_stdin = install is not None and bool(_STDIN & {*install.files})
        for body, line in command.bodies:
            # A Dockerfile's RUN <<EOF has no command: the text is one.
            if not command.words or any(_base(word) in _SHELLS for word in command.words[:3]):
                within.append((body, shifted(where, line)))
                continue
            names = ["requirements.txt"] if from_stdin else list(command.outputs)
            names += command.words[1:] if command.words[:1] == ("tee",) else ()
            yield from file_entries(names, body, shifted(where, line), fresh=fresh)
        for inner, place_of in within if depth < _DEEPEST else ():
            yield from script(inner, place_of, values, fresh=fresh, scope=scope, depth=depth + 1)


def shifted(where: Where, first: int) -> Where:
    """``where`` of a text that begins on line ``first``."""
    return lambda line: where(first + line - 1)


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _always(place: str) -> Where:
    return lambda _: place


def file_entries(names: list[str], body: str, where: Where, *, fresh: bool) -> Iterator[Entry]:
    """The entries of a dependency file that a script writes or reads as a here-document."""
    files = [_base(name) for name in names]
    found: Iterator[Entry] = iter(())
    if any(map(_REQUIREMENTS_FILE.fullmatch, files)):
        found = pip_file.read("", body)
    elif any(map(_CONDA_FILE.fullmatch, files)):
        from musadoctor.requirements import conda  # noqa: PLC0415 - seldom needed

        found = conda.read("", body)
    for entry in found:
        line = int(entry.where.rpartition(":")[2])
        yield entry._replace(where=where(line), fresh=fresh or entry.fresh)


def commands(text: str, values: Variables) -> Iterator[Command]:
    """The simple commands of a script, in their order; ``values`` follows its assignments."""
    inner: _Inner = []
    tokens: list[_Token] = []
    line, counted = 1, 0
    for token in _tokens(text, values, inner):
        if token.kind == "word" and not tokens and token.fields[:1] in _RESERVED:
            continue
        if token.kind != "end":
            tokens.append(token)
            continue
        if tokens:
            start = tokens[0].start
            line, counted = line + text.count("\n", counted, start), start
            words = _words(tokens)
            _assign(words, values)
            written = text[start : max(token.stop for token in tokens)]
            yield Command(
                line,
                tuple(words),
                _CONTINUED.sub(" ", written).strip(),
                tuple(token.fields[0] for token in tokens if token.kind == "output"),
                _numbered(
                    text, start, line, [(t.fields[0], t.at) for t in tokens if t.kind == "body"]
                ),
                _numbered(text, start, line, inner),
            )
        tokens.clear()
        inner.clear()


def _numbered(text: str, start: int, line: int, parts: _Inner) -> tuple[tuple[str, int], ...]:
    """Each part with its line instead of its place."""
    found: list[tuple[str, int]] = []
    for part, at in parts:
        line, start = line + text.count("\n", start, at), at
        found.append((part, line))
    return tuple(found)


def word_list(text: str, values: Variables) -> list[str]:
    """The words of a text that only blanks end, as of a Dockerfile's ``ENV``: none is split."""
    words: list[str] = []
    at = _after_lines(text, 0)
    while at < len(text):
        fields, at = _word(text, at, values, [], ends=_BLANKS)
        words += fields
        at = _after_lines(text, at)
    return words


def _after_lines(text: str, at: int) -> int:
    while (after := _after_blanks(text, at)) < len(text) and text[after] == "\n":
        at = after + 1
    return after


def substituted(text: str, values: Variables, depth: int = 0) -> str:
    """A text with the variables that are known filled in, and its quotes taken away."""
    return "".join(_word(text, 0, values, [], ends="", depth=depth)[0])


def _words(tokens: list[_Token]) -> list[str]:
    words: list[str] = []
    declares = True
    for token in tokens:
        if token.kind != "word":
            continue
        fields = token.fields
        assigns = bool(fields) and _ASSIGNMENT.match(fields[0])
        if declares and assigns:
            words.append(" ".join(fields))
            continue
        declares = declares and not words and fields[:1] != () and fields[0] in _DECLARES
        words += fields
    return words


def _assign(words: list[str], values: Variables) -> None:
    if words[:1] == ["for"] and words[2:3] == ["in"]:
        _set(values, words[1], " ".join(words[3:]))
    rest = words[1:] if words and words[0] in _DECLARES else words
    found = [_ASSIGNMENT.fullmatch(word) for word in rest]
    if rest is words and not all(found):
        return
    for assignment in filter(None, found):
        name = assignment["name"]
        before = f"{values.get(name, '')} " if assignment["more"] else ""
        _set(values, name, before + assignment["value"])


def _set(values: Variables, name: str, value: str) -> None:
    if len(value) <= LONGEST_VALUE:
        values[name] = value
    else:
        values.pop(name, None)


def _settings(command: Command, place: str, *, fresh: bool, scope: str) -> Iterator[Entry]:
    """The variables that a command sets, for itself or with ``export``."""
    for word in command.words:
        if assignment := _ASSIGNMENT.fullmatch(word):
            yield from installers.variable_entries(
                assignment["name"],
                assignment["value"],
                place,
                command.text,
                fresh=fresh,
                scope=scope,
            )
        elif word not in _DECLARES and not word.startswith("-"):
            return


def _text_that_it_runs(words: tuple[str, ...]) -> str:
    """``pip install torch`` of ``bash -c 'pip install torch'``; empty of all else."""
    if words[:1] == ("eval",):
        return " ".join(words[1:])
    for index, word in enumerate(words[:20]):
        if _base(word) in _SHELLS:
            for place, option in enumerate(words[index + 1 : index + 8], index + 2):
                if _RUNS_TEXT.fullmatch(option):
                    return "".join(words[place : place + 1])
    return ""


def _tokens(text: str, values: Variables, inner: _Inner) -> Iterator[_Token]:
    at = 0
    after_bodies = 0
    """Where the lines after the here-documents of this line begin."""
    while (at := _after_blanks(text, at)) < len(text):
        if text[at] == "#":
            at = _line_end(text, at)
        elif redirection := _REDIRECTION.match(text, at):
            sign = redirection["sign"] or ">"
            token, at = _redirected(text, at, _after_blanks(text, redirection.end()), values, inner)
            if sign in {"<<", "<<-"}:
                start = after_bodies or _line_end(text, at) + 1
                body, after_bodies = _body(text, start, "".join(token.fields), tabs=sign == "<<-")
                token = token._replace(kind="body", fields=(body,), at=start)
            elif sign == "<<<":
                token = token._replace(kind="body")
            if token.kind == "body" or ">" in sign:
                yield token
        elif operator := _OPERATOR.match(text, at):
            yield _Token("end", at, operator.end())
            at = operator.end()
            if operator[0] == "\n" and after_bodies:
                at, after_bodies = after_bodies, 0
        else:
            token, at = _of_word(text, at, values, inner)
            yield token
    yield _Token("end", at, at)


def _redirected(
    text: str, begun: int, at: int, values: Variables, inner: _Inner
) -> tuple[_Token, int]:
    """The word after a redirection's sign, and where it ends."""
    fields, stop = _word(text, at, values, inner)
    return _Token("output", begun, stop, (" ".join(fields),), at), stop


def _of_word(text: str, at: int, values: Variables, inner: _Inner) -> tuple[_Token, int]:
    fields, stop = _word(text, at, values, inner)
    if text.startswith("(", stop) and len(fields) == 1 and fields[0].endswith("="):
        items, stop = _array(text, stop + 1, values, inner)
        fields = [fields[0] + " ".join(items)]
    return _Token("word", at, stop, tuple(field for field in fields if field)), stop


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _after_blanks(text: str, at: int) -> int:
    skipped = _SKIPPED.match(text, at)
    return skipped.end() if skipped else at


def _body(text: str, start: int, delimiter: str, *, tabs: bool) -> tuple[str, int]:
    """A here-document, and where the lines after it begin."""
    indent = r"\t*" if tabs else ""
    closing = re.compile(rf"^{indent}{re.escape(delimiter)}\r?$", re.MULTILINE)
    found = closing.search(text, start)
    if found is None:
        return text[start:], len(text)
    return text[start : found.start()], min(found.end() + 1, len(text))


def _array(text: str, at: int, values: Variables, inner: _Inner) -> tuple[list[str], int]:
    """The items of ``NAME=(a b c)``, and where it ends."""
    items: list[str] = []
    while at < len(text) and text[at] != ")":
        if text[at] == "#":
            at = _line_end(text, at)
        elif text[at] in _ENDS:
            at += 1
        else:
            fields, at = _word(text, at, values, inner)
            items += fields
    return items, at + 1


def _word(
    text: str,
    at: int,
    values: Variables,
    inner: _Inner,
    *,
    ends: str = _ENDS,
    depth: int = 0,
) -> tuple[list[str], int]:
    """The word at a place, as the fields that it is split into, and where it ends."""
    fields: list[list[str]] = [[]]
    plain = _PLAIN[ends]
    while at < len(text):
        sign = text[at]
        if found := plain.match(text, at):
            fields[-1].append(found[0])
            at = found.end()
        elif ends == _ENDS and sign in "<>" and text.startswith("(", at + 1):
            end = _closing(text, at + 2, ")")
            inner.append((text[at + 2 : end], at + 2))
            fields[-1].append(text[at : end + 1])
            at = end + 1
        elif sign in ends:
            break
        elif sign == "\\":
            at += 2 if text.startswith("\\\r\n", at) else 1
            fields[-1].append(text[at : at + 1].replace("\n", ""))
            at += 1
        elif sign == "'":
            end = text.find("'", at + 1)
            end = len(text) if end < 0 else end
            fields[-1].append(text[at + 1 : end])
            at = end + 1
        elif sign == '"':
            at = _double(text, at + 1, values, inner, fields, depth)
        else:
            value, at, splits = _expansion(text, at, values, inner, depth)
            _add(fields, value, splits=splits and ends == _ENDS)
    return ["".join(parts) for parts in fields], min(at, len(text))


def _double(
    text: str,
    at: int,
    values: Variables,
    inner: _Inner,
    fields: list[list[str]],
    depth: int,
) -> int:
    """Take a double-quoted text over into the fields; where it ends."""
    while at < len(text):
        if found := _PLAIN_IN_DOUBLE.match(text, at):
            fields[-1].append(found[0])
            at = found.end()
        elif text[at] == '"':
            return at + 1
        elif text[at] == "\\":
            pair = text[at : at + 2]
            fields[-1].append("" if pair == "\\\n" else pair[1:] if pair[1:] in '"\\$`' else pair)
            at += 2
        else:
            begun = at
            value, at, _ = _expansion(text, at, values, inner, depth)
            _add(fields, value, splits=text.startswith("${", begun) and "[@]" in text[begun:at])
    return at


def _add(fields: list[list[str]], value: str, *, splits: bool) -> None:
    parts = value.split() if splits else [value]
    fields[-1] += parts[:1]
    fields += [[part] for part in parts[1:]]


def _expansion(
    text: str, at: int, values: Variables, inner: _Inner, depth: int
) -> tuple[str, int, bool]:
    """What a ``$`` or backtick stands for, where it ends, and whether blanks in it split.

    What is not known stays as it is written.
    """
    if text[at] == "`":
        end = text.find("`", at + 1)
        end = len(text) if end < 0 else end
        inner.append((text[at + 1 : end], at + 1))
        return text[at : end + 1], end + 1, False
    if text.startswith("$(", at):
        end = _closing(text, at + 2, ")")
        if not text.startswith("(", at + 2):
            inner.append((text[at + 2 : end], at + 2))
        return text[at : end + 1], end + 1, False
    if text.startswith("${", at):
        end = _closing(text, at + 2, "}")
        value = _parameter(text[at + 2 : end], values, depth) if end < len(text) else None
        return text[at : end + 1] if value is None else value, end + 1, value is not None
    if text.startswith(("$'", '$"'), at):
        return "", at + 1, False
    found = _NAME.match(text, at)
    if found is None:
        return text[at], at + 1, False
    value = values.get(found["name"] or "")
    return found[0] if value is None else value, found.end(), value is not None


def _parameter(content: str, values: Variables, depth: int) -> str | None:
    """``X``, ``X:-default``, ``X:+other``; ``None`` where it is not known."""
    found = _PARAMETER.fullmatch(content)
    if found is None or depth > _DEEPEST:
        return None
    value = values.get(found["name"])
    sign = found["sign"]
    if not sign or sign == "?" or (value and sign != "+"):
        return value
    if sign == "+" and not value:
        return ""
    made = substituted(found["word"], values, depth + 1)
    if sign == "=":
        _set(values, found["name"], made)
    return made


def _closing(text: str, at: int, closing: str) -> int:
    """Where the bracket closes that was opened before; the text's end where it does not."""
    opening = "(" if closing == ")" else "{"
    open_ones = 1
    while found := _BRACKETS.search(text, at):
        at = found.end()
        sign = found[0]
        if sign == "\\":
            at += 1
        elif sign == "'":
            at = text.find("'", at) + 1 or len(text)
        elif sign == '"':
            at = _end_of_quoted(text, at)
        elif sign == opening:
            open_ones += 1
        elif sign == closing:
            open_ones -= 1
            if not open_ones:
                return found.start()
    return len(text)


def _end_of_quoted(text: str, at: int) -> int:
    found = _DOUBLE_QUOTED.match(text, at)
    return found.end() if found else at
