"""setup.py, read as a syntax tree and never run.

A name stands for all that the file assigns to it anywhere, a condition for both of its sides:
rather too much is read than too little.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.requirement import LONGEST_TEXT, address, entry_of, shown

LARGEST = 200_000
"""Characters. A syntax tree takes 600 times its text; the largest setup.py seen has 60,000."""

_SCOPES = {
    "install_requires": "",
    "setup_requires": "build",
    "tests_require": "group:tests",
    "extras_require": "extra",
}
_FILE = re.compile(
    r"[\w./-]*(?:require|constraint|depend)[\w./-]*\.(?:txt|in)", re.IGNORECASE | re.ASCII
)
_NOT_READ = frozenset({"package_data", "data_files", "exclude_package_data"})
_EXTENSION = re.compile(r"\b(?:CUDAExtension|CUDA_HOME|CUDA_PATH|cpp_extension|nvcc)\b")
_EXTENSION_NAMES = {"cpp_extension": "torch.utils.cpp_extension"}
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_PERCENT = re.compile(r"%(?:\(\w+\))?[sdr]")
_COLLECTIONS = frozenset(
    {
        *("list", "tuple", "set", "frozenset", "dict", "fromkeys", "sorted", "reversed", "filter"),
        *("sum", "chain", "from_iterable"),
    }
)
_ALIKE = frozenset(
    {"splitlines", "strip", "copy", "values", "items", "keys", "union", "format", "dedent"}
)
_ADDED = {"append": 0, "add": 0, "extend": 0, "update": 0, "insert": 1, "setdefault": 1}


class _Module(NamedTuple):
    path: str
    lines: list[str]
    assigned: dict[str, list[ast.expr]]
    """By name of a variable what is assigned or added to it; by name of a function its results."""
    roots: list[tuple[ast.expr, str]]
    """What is given as requirements, and its scope."""
    files: dict[str, ast.expr]
    """Files of requirements that are named."""


def read(path: str, text: str) -> Iterator[Entry]:
    """The requirements of a setup.py, the files that it takes some from, its CUDA extensions."""
    try:
        tree = _tree(text)
        module = _Module(path, text.split("\n"), {}, [], {})
        for node in ast.walk(tree):
            _collect(module, node)
        _collect_files(module, tree)
        found = [*_requirements(module), *_extensions(module, tree)]
    except BrokenError as error:
        yield broken(path, text, error)
    except RecursionError:
        yield broken(path, text, BrokenError("nested too deeply to be read"))
    else:
        yield from sorted(found, key=lambda entry: int(entry.where.rpartition(":")[2]))


def _tree(text: str) -> ast.Module:
    if len(text) > LARGEST:
        raise BrokenError(f"{len(text):,} characters of Python are more than is read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise BrokenError(f"no Python 3: {error.msg}", error.lineno or 1) from None
    except ValueError as error:  # NUL
        raise BrokenError(f"no Python 3: {error}") from None
    except (RecursionError, MemoryError):
        raise BrokenError("nested too deeply to be read") from None


def _collect(  # noqa: C901 - one case a form of syntax
    module: _Module, node: ast.AST
) -> None:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _assign(module, target, value)
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.AugAssign(target=target, value=value)
            | ast.NamedExpr(target=target, value=value)
        ):
            _assign(module, target, value)
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            _assign(module, target, ast.copy_location(ast.Starred(value), value))
        case ast.Call(func=ast.Attribute(value=target, attr=name), args=args) if name in _ADDED:
            for added in args[_ADDED[name] : _ADDED[name] + 1]:
                _assign(module, target, added)
        case ast.FunctionDef(name=name):
            results = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
            module.assigned.setdefault(name, []).extend(value for value in results if value)
        case ast.keyword(arg=str(name), value=value) if name in _SCOPES:
            module.roots.append((value, _SCOPES[name]))
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value in _SCOPES:
                    module.roots.append((value, _SCOPES[str(key.value)]))
        case _:
            pass


def _assign(module: _Module, target: ast.expr, value: ast.expr) -> None:
    match target:
        case ast.Name(id=name):
            module.assigned.setdefault(name, []).append(value)
            if name in _SCOPES:
                module.roots.append((value, _SCOPES[name]))
        case ast.Subscript(value=inner, slice=key):
            if isinstance(key, ast.Constant) and key.value in _SCOPES:
                module.roots.append((value, _SCOPES[str(key.value)]))
            _assign(module, inner, ast.copy_location(ast.Dict(keys=[key], values=[value]), value))
        case _:
            pass


def _collect_files(module: _Module, tree: ast.Module) -> None:
    """Note the files of requirements that are named, but for those that are only packed."""
    others = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg in _NOT_READ
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        parts = node.args if isinstance(node, ast.Call) and _called(node) == "join" else [node]
        path = "/".join(
            part.value
            for part in parts
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        if _FILE.fullmatch(path) and isinstance(node, ast.expr) and id(node) not in others:
            module.files.setdefault(path, node)
            others |= {id(part) for part in parts}


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _requirements(module: _Module) -> Iterator[Entry]:
    for file, node in module.files.items():
        made = Entry("include", f"{module.path}:{node.lineno}", _line(module, node))
        yield made._replace(option="file:", url=address(file))
    done: set[tuple[int, int]] = set()
    seen: set[tuple[str, str]] = set()
    for node, scope in module.roots:
        for leaf, inner in _leaves(module, node, scope, seen):
            if (leaf.lineno, leaf.col_offset) not in done:
                done.add((leaf.lineno, leaf.col_offset))
                yield from _entries(module, leaf, inner)


def _leaves(
    module: _Module, node: ast.expr, scope: str, seen: set[tuple[str, str]]
) -> Iterator[tuple[ast.expr, str]]:
    """The expressions that a list, or a dictionary of lists, is made of, and their scopes."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from _leaves(module, value, _scope(module, scope, key), seen)
        return
    if isinstance(node, ast.DictComp):
        scope = _scope(module, scope, node.key)
    if isinstance(node, ast.Call) and scope == "extra":
        for word in node.keywords:
            yield from _leaves(module, word.value, f"extra:{word.arg}", seen)
    if name := _reference(module, node):
        if (name, scope) in seen:
            return
        seen.add((name, scope))
    parts = _parts(module, node)
    if parts is None or _text(module, node) is not None:
        yield node, scope
    else:
        for part in parts:
            yield from _leaves(module, part, scope, seen)


def _reference(module: _Module, node: ast.expr) -> str:
    """What names a part of the file that could lead back to itself; empty where nothing does."""
    match node:
        case ast.Name(id=name) if name in module.assigned:
            return name
        case ast.Call() if (name := _called(node)) in module.assigned:
            return name
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
            return f"{name}[{key!r}]"
        case _:
            return ""


def _parts(  # noqa: C901, PLR0911, PLR0912 - one case a form of syntax
    module: _Module, node: ast.expr
) -> list[ast.expr] | None:
    """What an expression's items come from; ``None`` of one that is an item, or unknown."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return parts
        case ast.BoolOp(values=parts):
            return parts
        case ast.BinOp(op=ast.Add()):
            return _added(node)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Subscript(value=ast.Name(id=name) as whole, slice=ast.Constant(value=key)):
            return _items(module, name, key) or [whole]
        case ast.Starred(value=value) | ast.Subscript(value=value):
            return [value]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return [node.elt] if _is_text(node.elt) else [one.iter for one in node.generators]
        case ast.DictComp(value=value):
            return [value]
        case ast.Name(id=name):
            return module.assigned.get(name)
        case ast.Call():
            return _call_parts(module, node)
        case ast.Constant(value=None):
            return []
        case _:
            return None


def _items(module: _Module, name: str, key: object) -> list[ast.expr]:
    """What a dictionary of that name has under a key."""
    return [
        value
        for one in module.assigned.get(name, ())
        if isinstance(one, ast.Dict)
        for found, value in zip(one.keys, one.values, strict=True)
        if isinstance(found, ast.Constant) and found.value == key
    ]


def _added(node: ast.expr) -> list[ast.expr]:
    """What stands between the plus signs."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp))


def _call_parts(module: _Module, node: ast.Call) -> list[ast.expr] | None:
    name = _called(node)
    if name in _COLLECTIONS:
        return node.args
    if name in _ALIKE and isinstance(node.func, ast.Attribute):
        return [node.func.value]
    return module.assigned.get(name)


def _scope(module: _Module, scope: str, key: ast.expr | None) -> str:
    if scope != "extra" or key is None:
        return scope
    return f"extra:{(_text(module, key) or '...').partition(':')[0]}"


def _text(  # noqa: C901, PLR0911 - one case a form of syntax
    module: _Module, node: ast.expr
) -> str | None:
    """A text, with ``{...}`` where only the run will tell; ``None`` of what is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(module, value) or "{...}" for value in values)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text(module, value)
        case ast.BinOp(op=ast.Add()):
            parts = _added(node)
            if not any(isinstance(part, (ast.Constant, ast.JoinedStr)) for part in parts):
                return None
            return "".join(_text(module, part) or "{...}" for part in parts)
        case ast.BinOp(left=left, op=ast.Mod()):
            template = _text(module, left)
            return None if template is None else _PERCENT.sub("{...}", template)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "strip")):
            return _text(module, value)
        case ast.Call(func=ast.Attribute(value=value, attr="split"), args=args):
            return _split(_text(module, value), args)
        case ast.Name(id=name):
            match module.assigned.get(name):
                case [ast.Constant(value=str(text))] if len(text) <= LONGEST_TEXT:
                    return text
                case _:
                    return None
        case _:
            return None


def _split(text: str | None, args: list[ast.expr]) -> str | None:
    """The parts of a text, each on a line of its own."""
    if text is None:
        return None
    match args:
        case [ast.Constant(value=str(separator)), *_] if separator:
            return "\n".join(text.split(separator))
        case _:
            return "\n".join(text.split())


def _entries(module: _Module, node: ast.expr, scope: str) -> Iterator[Entry]:
    text = _text(module, node)
    if text is None:
        if not module.files:
            reason = "known only when setup.py runs"
            where = f"{module.path}:{node.lineno}"
            yield Entry("unreadable", where, _line(module, node), scope=scope, reason=reason)
        return
    for number, line in enumerate(text.split("\n"), node.lineno):
        requirement = line.partition(" #")[0].strip()
        if not requirement or requirement.startswith("#"):
            continue
        where = f"{module.path}:{min(number, node.end_lineno or number)}"
        if _PLACEHOLDER.search(requirement):
            reason = "put together when setup.py runs"
            yield Entry("unreadable", where, shown(requirement), scope=scope, reason=reason)
        else:
            yield entry_of(requirement, where, scope=scope)


def _extensions(module: _Module, tree: ast.Module) -> Iterator[Entry]:
    """Each sign of a CUDA extension, where it stands first."""
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    seen: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                words = name
            case ast.ImportFrom(module=str(name)):
                words = name
            case ast.Constant(value=str(name)) if id(node) not in notes:
                words = name
            case _:
                continue
        for word in _EXTENSION.findall(words):
            seen[word] = min(node.lineno, seen.get(word, node.lineno))
    for word, number in sorted(seen.items()):
        text = shown(module.lines[number - 1])
        name = _EXTENSION_NAMES.get(word, word)
        yield Entry("extension", f"{module.path}:{number}", text, name=name)


def _line(module: _Module, node: ast.expr) -> str:
    return shown(module.lines[node.lineno - 1])
