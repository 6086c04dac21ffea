"""Requirements files: our reader against pip's own, and what it makes of each line."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pip._internal.req import req_file

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import formats, pip_file
from musadoctor.requirements.pip_file import Line, Option
from musadoctor.requirements.text import decode

CORPUS = Path(__file__).parent / "guard" / "corpus"
HASH = "--hash=sha256:" + "a" * 64
PARSE = req_file.get_line_parser(None)

TEXTS = {
    "plain": "torch==2.4.0\nnumpy  # a comment\n\n  # another\nscipy#no-comment\n\tpandas\t#c\n",
    "continued": f"torch==2.4.0 \\\n    {HASH} \\\n\t{HASH}\nflash-attn \\\n  == \\\n  2.6.3\nx\n",
    "continued comments": "a \\\n# c \\\nb\n# d \\\ne\\\n  # f\ng \\\n\\\n\nh\\",
    "backslashes": "\\a\\\\\\\nb\\ \n\\\n\\\n",
    "line ends": "a\r\nb\rc\x0cd\x0be\x1cf\x85g\u2028h\n\ni\\\r\nj",
    "options": (
        "-i https://example.invalid/simple\n--index-url=https://example.invalid\n"
        "--extra-index-url https://a.invalid --extra-index-url=https://b.invalid\n"
        "-fhttps://c.invalid\n-f ./links\n--find-links=./links\n--no-index\n--pre\n"
        "--no-binary :all:\n--only-binary=a,b\n--prefer-binary\n--require-hashes\n"
        "--trusted-host example.invalid\n--use-feature=fast-deps\n-- torch\n- torch\n"
    ),
    "abbreviated": (
        "--index https://a.invalid\n--extra https://b.invalid\n--find ./x\n--trust y\n--edit .\n"
        "--no-ind\n--prefer\n--only-b=x\n--require-h\n--pypi https://p.invalid\n--no-b x\n"
        "torch --ha sha256:ab\ntorch --config a=b\n"
    ),
    "editables": "-e .\n-e./a\n--editable=git+https://example.invalid/a#egg=a\n-e '.[a, b]'\n-e . -e b\n",
    "markers": "torch==2.4; sys_platform == 'win32'\ntorch ; python_version<'3' --hash=sha256:ab\n",
    "quotes": "-f \"a b\"\n-f 'c d'\n-f e\\ f\n-C 'a=b c'\ntorch -C a=b -C a=c -Cd=e\n",
    "variables": "torch==${G1_UNSET}\n-i https://${G1_UNSET}@example.invalid\n",
    "wrong": (
        "--no-such-thing\n-x\n--re x\n-i\n--no-index=1\n-f 'open\ntorch -e\n--no\n--\n--=x\n"
        "-e\n--hash\ntorch --hash\n"
    ),
    "blanks": "torch  ==  2.4  --hash=sha256:ab\t-f\n torch\t--pre\n\u3000torch\u3000#c\n\xa0#c\n",
    "addresses": (
        "https://example.invalid/a.whl#sha256=ab # c\n./a.whl;os_name=='nt'\na @ file:///b.whl\n"
    ),
}


def pip_lines(text: str) -> list[tuple[int, str]]:
    return list(req_file.preprocess(text))


def our_lines(text: str) -> list[tuple[int, str]]:
    return [(line.first, line.text) for line in pip_file.logical_lines(text)]


def pip_parsed(line: str) -> tuple[str, dict[str, object]] | None:
    """What pip makes of a line; ``None`` where it gives up on the file."""
    try:
        requirement, options = PARSE(line)
    except req_file.OptionParsingError:
        return None
    return requirement.strip(), vars(options)


def our_parsed(line: str) -> tuple[str, dict[str, object]] | None:
    """What we make of it, in pip's terms: our options are spelled out and given to pip."""
    requirement, rest = pip_file.split(line)
    try:
        options, _ = pip_file.options(rest)
    except ValueError:
        return None
    words = (
        f"{option.name}={shlex.quote(option.value)}"
        if option.name in pip_file.VALUED
        else option.name
        for option in options
    )
    parsed = pip_parsed(" ".join(words))
    assert parsed is not None
    return requirement, parsed[1]


def assert_as_pip(text: str) -> None:
    assert our_lines(text) == pip_lines(text)
    for _, line in pip_lines(text):
        assert our_parsed(line) == pip_parsed(line), line


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_lines_and_options_are_those_of_pip(text: str) -> None:
    assert_as_pip(text)


def corpus() -> Iterator[Path]:
    """The requirements files among the real ones."""
    for path in sorted(CORPUS.rglob("*")):
        if path.is_file() and formats.by_name(path.name) in {formats.REQUIREMENTS, ""}:
            yield path


@pytest.mark.skipif(not CORPUS.exists(), reason="the real files are not here")
def test_real_files_are_read_as_pip_reads_them() -> None:
    for path in corpus():
        data = path.read_bytes()
        decoded = decode(data)
        if not data.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in data:
            continue  # UTF-16 without a mark, which pip misreads
        assert decoded.text == req_file._decode_req_file(data, str(path)), path
        if formats.of_named(str(path), decoded.text) == formats.REQUIREMENTS:
            assert_as_pip(decoded.text)


PIECES = st.sampled_from(
    [
        *("torch", "==2.4", " ", "  ", "\t", "\\", "\n", "\r\n", "\r", "\x0c", "\u2028", "#", " #"),
        *(" -r x", " --req", "--no-index", " --pre", " -e .", "-i", "--extra=x", "=", "'", '"'),
        *(" --hash=sha256:ab", " -Ca=b", " -- ", " - ", ";", "a", "\u3000", "\x1f", "--no"),
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join))
@example("\\")
@example("a\\\n#\\\nb")
def test_any_text_is_split_as_pip_splits_it(text: str) -> None:
    assert_as_pip(text)


ANYTHING = st.one_of(
    PIECES, st.sampled_from(["${A}", "{{ a }}", "<<<<<<< a", "pip install ", "<a>"])
)


@given(st.one_of(st.text(), st.lists(ANYTHING, max_size=25).map("".join)))
def test_any_text_is_read(text: str) -> None:
    lines = list(pip_file.logical_lines(text))
    last = 0
    for line in lines:
        assert last < line.first <= line.last <= len(text.splitlines())
        assert line.text == line.text.strip() != ""
        last = line.last
    firsts = {f"a:{line.first}" for line in lines}
    for entry in pip_file.read("a", text):
        assert entry.where in firsts
        assert bool(entry.reason) == (entry.kind == "unreadable")


def test_lines_know_where_they_end() -> None:
    text = "\ntorch \\\n  ==2 \\\n# c\n\nnumpy # d\nx \\\n"
    assert list(pip_file.logical_lines(text)) == [
        Line(2, 4, "torch   ==2"),
        Line(6, 6, "numpy"),
        Line(7, 7, "x"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x0c"])
def test_lines_are_counted_beyond_what_is_looked_at_at_a_time(end: str) -> None:
    text = f"torch{end}" * 40_000
    assert list(pip_file.physical_lines(text)) == text.splitlines()


@pytest.mark.parametrize(
    ("line", "options", "ignored"),
    [
        ("", [], []),
        (
            "-rfoo -r foo --requirement=foo --requirement foo",
            [Option("--requirement", "foo")] * 4,
            [],
        ),
        ("--index-url -i", [Option("--index-url", "-i")], []),
        ("--pypi-url=x", [Option("--index-url", "x")], []),
        (
            "--global-option=--cuda --install-opt x",
            [Option("--global-option", "--cuda"), Option("--install-option", "x")],
            [],
        ),
        ("--always-unzip", [Option("--always-unzip", "")], []),
        (
            "--pre a --no-index - b",
            [Option("--pre", ""), Option("--no-index", "")],
            ["a", "-", "b"],
        ),
        ("--pre -- -i x", [Option("--pre", "")], ["-i", "x"]),
    ],
)
def test_options(line: str, options: list[Option], ignored: list[str]) -> None:
    assert pip_file.options(line) == (options, ignored)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--frobnicate", "no such option: --frobnicate"),
        ("-x", "no such option: -x"),
        ("--no-b", None),
        ("-i", "--index-url without a value"),
        ("--pre=1", "--pre takes no value"),
        ("--always-unzip=1", "--always-unzip takes no value"),
        ("--require", "--require may be --requirement or --require-hashes"),
        ("-f 'a", "No closing quotation"),
        ("-f '" + "a" * 20_000 + "'", "options of 20,005 characters with quotes"),
    ],
)
def test_wrong_options_say_why(line: str, reason: str | None) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason or '--no-binary without a value')}"):
        pip_file.options(line)


def entry(kind: str, text: str, **more: object) -> Entry:
    return Entry(kind, "a:1", text)._replace(**more)  # type: ignore[arg-type]


URL = "https://example.invalid/whl/cu121"
COMMAND = "a shell command, which no requirements file may hold"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torch==2.4 # c", [entry("requirement", "torch==2.4", name="torch", specifier="==2.4")]),
        (
            f"torch==2.4 {HASH} {HASH}",
            [entry("requirement", "torch==2.4", name="torch", specifier="==2.4")],
        ),
        (HASH, []),
        (
            f"torch==2.4 --index-url {URL}",
            [
                entry(
                    "requirement", f"torch==2.4 --index-url {URL}", name="torch", specifier="==2.4"
                ),
                entry("index", f"torch==2.4 --index-url {URL}", url=URL, option="--index-url"),
            ],
        ),
        (
            "llama-cpp-python -C cmake.args=-DGGML_CUDA=on",
            [
                entry(
                    "requirement",
                    "llama-cpp-python -C cmake.args=-DGGML_CUDA=on",
                    name="llama-cpp-python",
                ),
                entry(
                    "option",
                    "llama-cpp-python -C cmake.args=-DGGML_CUDA=on",
                    name="llama-cpp-python",
                    option="--config-settings",
                    specifier="cmake.args=-DGGML_CUDA=on",
                ),
            ],
        ),
        ("--pre", [entry("option", "--pre", option="--pre")]),
        (
            f"--extra-index {URL}",
            [entry("index", f"--extra-index {URL}", url=URL, option="--extra-index-url")],
        ),
        (f"-f{URL}", [entry("index", f"-f{URL}", url=URL, option="--find-links")]),
        (
            "-i https://u:p@example.invalid/?t=1",
            [
                entry(
                    "index",
                    "-i https://example.invalid/?...",
                    url="https://example.invalid/",
                    option="--index-url",
                )
            ],
        ),
        ("-r a%20b.txt", [entry("include", "-r a%20b.txt", url="a%20b.txt", option="-r")]),
        ("-cb.txt", [entry("include", "-cb.txt", url="b.txt", option="-c")]),
        ("-e .[gpu]", [entry("source", "-e .[gpu]", url=".", extras=("gpu",), option="-e")]),
        ("-e torch", [entry("source", "-e torch", url="torch", option="-e")]),
        (
            "--pre torch==2.4",
            [
                entry("option", "--pre torch==2.4", option="--pre"),
                entry(
                    "unreadable",
                    "--pre torch==2.4",
                    reason="pip ignores what follows an option: torch==2.4",
                ),
            ],
        ),
        (
            "- torch",
            [entry("unreadable", "- torch", reason="pip ignores what follows an option: - torch")],
        ),
        (
            "torch --frob",
            [entry("unreadable", "torch --frob", reason="no such option: --frob")],
        ),
        (
            "torch=2 --pre",
            [
                entry(
                    "unreadable",
                    "torch=2 --pre",
                    reason="Expected semicolon (after name with no version specifier) or end",
                )
            ],
        ),
        # Templates.
        ("torch==${TORCH}", [entry("unreadable", "torch==${TORCH}", reason="placeholder")]),
        ("torch==$TORCH", [entry("unreadable", "torch==$TORCH", reason="placeholder")]),
        ("torch=={{ v }}", [entry("unreadable", "torch=={{ v }}", reason="placeholder")]),
        ("{% if cuda %}", [entry("unreadable", "{% if cuda %}", reason="placeholder")]),
        ("https://x/{v}.whl", [entry("unreadable", "https://x/{v}.whl", reason="placeholder")]),
        ("torch==<version>", [entry("unreadable", "torch==<version>", reason="placeholder")]),
        ("torch==@TORCH@", [entry("unreadable", "torch==@TORCH@", reason="placeholder")]),
        ("-r ${A}/b.txt", [entry("unreadable", "-r ${A}/b.txt", reason="placeholder")]),
        (
            "-i https://${USER}:${TOKEN}@example.invalid/simple",
            [
                entry(
                    "index",
                    "-i https://example.invalid/simple",
                    url="https://example.invalid/simple",
                    option="--index-url",
                )
            ],
        ),
        # What was pasted.
        *(
            (line, [entry("unreadable", line, reason=COMMAND)])
            for line in (
                "pip install torch==2.4.0",
                f"pip3 install torch --index-url {URL}",
                "!pip install flash-attn --no-build-isolation",
                "$ python3.10 -m pip install torch",
                "sudo pip -q install torch",
                "RUN uv pip install torch",
                "conda install -c pytorch pytorch",
            )
        ),
        ("<<<<<<< HEAD", [entry("unreadable", "<<<<<<< HEAD", reason="a merge conflict's mark")]),
        ("=======", [entry("unreadable", "=======", reason="a merge conflict's mark")]),
        (
            ">>>>>>> fix --pre",
            [entry("unreadable", ">>>>>>> fix --pre", reason="a merge conflict's mark")],
        ),
    ],
)
def test_what_a_line_holds(line: str, expected: list[Entry]) -> None:
    assert list(pip_file.read("a", line)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "torch" + " " * 1_000_000 + "!",
        "t" * 1_000_000,
        "t#" * 500_000,
        "torch==2 " + "--hash=sha256:ab " * 60_000,
        "://a:x" * 170_000 + " @",
        "-f '" + "a" * 1_000_000 + "'",
        "(" * 1_000_000,
        "\\\n" * 500_000,
    ],
    ids=["blanks", "a name", "comment signs", "hashes", "colons", "quotes", "brackets", "joined"],
)
def test_a_line_of_a_megabyte_is_read(line: str) -> None:
    entries = list(pip_file.read("a", line + "\nnumpy\n"))
    assert entries[-1].name == "numpy"
    assert all(len(found.text) <= 200 for found in entries)
