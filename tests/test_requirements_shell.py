"""Shell scripts: words against bash and shlex, and what the commands install."""

import shlex
import shutil
import subprocess

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from musadoctor.requirements import shell


def words(script: str, **values: str) -> list[tuple[str, ...]]:
    return [command.words for command in shell.commands(script, dict(values))]


def found(script: str) -> list[tuple[int, str, str]]:
    return [
        (int(entry.where.removeprefix("s.sh:")), entry.kind, entry.name or entry.url)
        for entry in shell.read("s.sh", script)
    ]


COMMANDS = {
    "a b": [("a", "b")],
    "a;b && c || d | e & f |& g;;h": [(c,) for c in "abcdefgh"],
    "(a b)\n{ c; }\n! d": [("a", "b"), ("c",), ("d",)],
    "if a; then b; elif c; then d; else e; fi": [("a",), ("b",), ("c",), ("d",), ("e",), ("fi",)],
    "while a; do b; done": [("a",), ("b",), ("done",)],
    "f() { a; }": [("f",), ("a",)],
    "case x in\n y) a;;\nesac": [("case", "x", "in"), ("y",), ("a",), ("esac",)],
    "a # b; c\n# d\ne#f": [("a",), ("e#f",)],
    "a \\\n  b \\\r\n c\r\nd\r\n": [("a", "b", "c"), ("d",)],
    "a \\\n# c\nb": [("a",), ("b",)],
    "a\\ b 'c d' \"e f\" g'h'\"i\"": [("a b", "c d", "e f", "ghi")],
    '"a\\"b\\\\c\\$d\\`e\\f\\\ng"': [('a"b\\c$d`e\\fg',)],
    "a'b": [("ab",)],
    'a"b': [("ab",)],
    "a\\": [("a",)],
    "a \\": [("a",)],
    "$'a' $\"b\" $ $%": [("a", "b", "$", "$%")],
    "a > b 2>&1 >> c <d &> e 3<> f 2>&1": [("a",)],
    "pip install torch>=2.0": [("pip", "install", "torch")],
    "a<(b) c>(d)": [("a<(b)", "c>(d)")],
    'a $(b c) `d e` "$(f \\) \')\' "g)")" $((1+2)) $(h': [
        ("a", "$(b c)", "`d e`", "$(f \\) ')' \"g)\")", "$((1+2))", "$(h")
    ],
    "a `b": [("a", "`b")],
    "a $(b }) c ${A:-)}": [("a", "$(b })", "c", ")")],
    "A=1\na $A ${A} \"$A\" '$A' \\$A $B ${B} ${A": [
        ("A=1",),
        ("a", "1", "1", "1", "$A", "$A", "$B", "${B}", "${A"),
    ],
    'A="x y"; a $A "$A" b$A': [("A=x y",), ("a", "x", "y", "x y", "bx", "y")],
    "A=; a $A b": [("A=",), ("a", "b")],
    "A=x B=$A a": [("A=x", "B=$A", "a")],
    "A='x y'; B=$A; export C=$A D=1; a $B $C $D": [
        ("A=x y",),
        ("B=x y",),
        ("export", "C=x y", "D=1"),
        ("a", "x", "y", "x", "y", "1"),
    ],
    "A=x; A+=y; a $A": [("A=x",), ("A+=y",), ("a", "x", "y")],
    'A=(x # c\n \'y z\'\n $B); a "${A[@]}" ${A[*]} "${A[@]}': [
        ("A=x y z $B",),
        ("a", "x", "y", "z", "$B", "x", "y", "z", "$B", "x", "y", "z", "$B"),
    ],
    "A=(x": [("A=x",)],
    'a ${B:-c} ${B-d} ${B:+e} "${B:=f g}" $B ${B:+h} ${B:?i} ${B#j} ${@} $1 $@': [
        ("a", "c", "d", "f g", "f", "g", "h", "f", "g", "${B#j}", "${@}", "$1", "$@")
    ],
    'a ${B:-${C:-d}} ${B:-"e f"} ${B:-g h}': [("a", "d", "e", "f", "g", "h")],
    "for p in torch apex; do a $p; done": [
        ("for", "p", "in", "torch", "apex"),
        ("a", "torch", "apex"),
        ("done",),
    ],
    "local A=1; readonly B=2; a $A$B": [("local", "A=1"), ("readonly", "B=2"), ("a", "12")],
    "A=1 a; b $A": [("A=1", "a"), ("b", "$A")],
    "a <<E b\nx\nE\nc": [("a", "b"), ("c",)],
    "a <<-'E'; b <<F\n\tx\n\tE\ny\nF\nc": [("a",), ("b",), ("c",)],
    "a <<< 'b c' d": [("a", "d")],
    "a <<E": [("a",)],
    "a <<E\nb": [("a",)],
    "a\x0bb \x0c c": [("a\x0bb", "\x0c", "c")],
    "a\u3000b": [("a\u3000b",)],
    "": [],
    ";;\n&&": [],
}


@pytest.mark.parametrize(("script", "expected"), COMMANDS.items())
def test_a_script_falls_into_commands(script: str, expected: list[tuple[str, ...]]) -> None:
    assert words(script) == expected


INSTALLS = {
    "#!/bin/sh\nset -e\n\npip install \\\n  torch==2.4.0 \\\n  numpy\n": [
        (4, "requirement", "torch"),
        (4, "requirement", "numpy"),
    ],
    "if true; then\n  pip install torch\nelse\n  pip install apex; fi": [
        (2, "requirement", "torch"),
        (4, "requirement", "apex"),
    ],
    "# pip install torch\necho pip install torch": [],
    "export CUDA_HOME=/usr/local/cuda X=1\nTORCH_CUDA_ARCH_LIST=8.0 python setup.py install": [
        (1, "variable", "CUDA_HOME"),
        (2, "variable", "TORCH_CUDA_ARCH_LIST"),
    ],
    "declare -x FORCE_CUDA=1": [(1, "variable", "FORCE_CUDA")],
    "bash -lc 'pip install torch\npip install x'": [
        (1, "requirement", "torch"),
        (1, "requirement", "x"),
    ],
    "sudo -u me bash -o pipefail -c 'pip install torch'": [(1, "requirement", "torch")],
    "su - me -c 'pip install torch'": [(1, "requirement", "torch")],
    "bash -c": [],
    "bash x.sh": [],
    "eval pip install torch": [(1, "requirement", "torch")],
    "x\nA=$(\npip install torch\n)": [(3, "requirement", "torch")],
    "x `pip install a` `pip install b`\n": [(1, "requirement", "a"), (1, "requirement", "b")],
    "x\nbash <<E\n\npip install torch\nE\npip install x": [
        (4, "requirement", "torch"),
        (6, "requirement", "x"),
    ],
    "python - <<E\npip install torch\nE": [],
    "cat > a/requirements-gpu.txt <<E && pip install -r a/requirements-gpu.txt\n# c\ntorch\nE": [
        (3, "requirement", "torch"),
        (1, "include", "a/requirements-gpu.txt"),
    ],
    "tee requirements.txt <<E\ntorch\nE": [(2, "requirement", "torch")],
    "cat > environment.yml <<E\ndependencies:\n- pytorch\nE": [(3, "conda", "pytorch")],
    "cat > notes.md <<E\ntorch\nE": [],
    "pip install -r /dev/stdin <<E\ntorch\nE": [
        (1, "include", "/dev/stdin"),
        (2, "requirement", "torch"),
    ],
    "conda run -n a bash -c 'pip install torch'": [(1, "requirement", "torch")],
    "pip install torch==$V": [(1, "unreadable", "")],
    "V=2.4; pip install torch==$V": [(1, "requirement", "torch")],
}


@pytest.mark.parametrize(("script", "expected"), INSTALLS.items())
def test_what_a_script_installs(script: str, expected: list[tuple[int, str, str]]) -> None:
    assert found(script) == expected


def test_an_entry_shows_its_command_on_one_line() -> None:
    (entry, _) = shell.read("s.sh", "if x; then pip install \\\n   torch==2.4 \\\n  y # c\nfi")
    assert entry.text == "pip install torch==2.4 y"
    assert entry.specifier == "==2.4"


def test_fresh_and_scope_reach_every_entry() -> None:
    script = "export CUDA_HOME=/c; pip install a; bash -c 'pip install b'; x $(pip install c)"
    entries = list(shell.script(script, str, {}, fresh=True, scope="task"))
    assert [entry.name for entry in entries] == ["CUDA_HOME", "a", "b", "c"]
    assert all(entry.fresh and entry.scope == "task" for entry in entries)


def test_commands_within_commands_end_somewhere() -> None:
    deep = "pip install torch"
    for _ in range(30):
        deep = f"x $({deep})"
    assert found(deep) == []
    quoted = "pip install torch"
    for _ in range(12):
        quoted = f"bash -c {shlex.quote(quoted)}"
    assert found(quoted) == []
    defaults = "${A:-" * 5000 + "}" * 5000
    assert words(f"a {defaults}")[0][0] == "a"


def test_values_that_double_themselves_end_somewhere() -> None:
    script = "A=0123456789\n" + "A=$A$A\n" * 60 + "a $A"
    assert len(words(script)[-1][1]) <= shell.LONGEST_VALUE


def test_the_words_of_an_instruction() -> None:
    text = " A=1;2 B=\"x y\" C=$A \\\n D='$A'\n\n E=${F:-<g>}"
    assert shell.word_list(text, {"A": "7 8"}) == ["A=1;2", "B=x y", "C=7 8", "D=$A", "E=<g>"]
    assert shell.substituted("a:${A}-'b' $C", {"A": "7 8"}) == "a:7 8-b $C"


@pytest.mark.parametrize(
    "script", ["$(" * 50_000, "a <<E " * 50_000, "a\\b" * 500_000, '"' * 99_999, "A=(" * 50_000]
)
def test_odd_scripts_are_read_to_their_end(script: str) -> None:
    assert list(shell.commands(script, {}))


SIMPLE = st.text("ab '\"\\\t", max_size=30)


@given(SIMPLE)
@example("a\\\\ b")
def test_shlex_splits_the_same(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        assume(False)
    got = [word for command in words(text) for word in command]
    assert got == [word for word in expected if word]


PARTS = st.sampled_from([
    " ", " ", "\t", "a", "'b  c'", '"d $A"', "$A''", "${A}", "\\ ", "\\$A", '"\\$A\\\\\\e"', "'$A'",
    "${A:-z}", "${B:-y z}", '"${B:-y z}"', "${A:+q r}", "${B:+q}", "${B-'s t'}", "\\\n", "e\\\nf",
    '"${L[@]}"', "${L[*]}", "$'u'", '$"v"', "#", "=", "{", "}", "w=",
])  # fmt: skip


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
@settings(max_examples=60)
@given(st.lists(PARTS, max_size=12).map("".join))
@example(" #e\\\nf")
def test_bash_splits_the_same(text: str) -> None:
    script = f"set -f; A='x y'; L=(l 'm n')\n__ x{text}\n"
    bash = subprocess.run(
        [
            "bash",
            "-c",
            f"__() {{ printf '%s\\0' \"$@\"; }}; command_not_found_handle() {{ :; }}\n{script}",
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    # What stands behind a comment is a command of its own.
    command = next(one for one in words(script) if one[0] == "__")
    split = [word for word in bash.stdout.decode().split("\0") if word]
    assert [part for word in command[1:] for part in word.split()] == " ".join(split).split()


@given(st.text("ab ;&|<>()'\"\\$`{}#=\n\r\t-EAF:+[]@!", max_size=80))
@example("a <<E\n$(b")
@example("A=(")
def test_no_script_is_too_odd(text: str) -> None:
    for command in shell.commands(text, {"A": "x y"}):
        assert 1 <= command.line <= text.count("\n") + 1
    for entry in shell.read("s.sh", f"pip install {text}"):
        assert entry.text.isprintable()
