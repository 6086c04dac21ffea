"""One requirement as an entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.requirement import (
    LONGEST_REQUIREMENT,
    LONGEST_TEXT,
    address,
    entry_of,
    public,
    shown,
)

WHEEL = "torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl"
WHEEL_SHOWN = "torch-2.4.0+cu121-cp310-cp310-linux_x86_64.whl"


def fields(entry: Entry) -> dict[str, object]:
    """What an entry says beside what every one does."""
    default = Entry("requirement", entry.where, entry.text)._asdict()
    return {
        name: value
        for name, value in entry._asdict().items()
        if name not in {"where", "text"} and value != default[name]
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch", {"name": "torch"}),
        ("Flash_Attn.X", {"name": "flash-attn-x"}),
        ("torch==2.4.0+cu121", {"name": "torch", "specifier": "==2.4.0+cu121"}),
        ("  torch == 2.4.0\t", {"name": "torch", "specifier": "==2.4.0"}),
        ("torch>=2.2 , <3,", {"name": "torch", "specifier": ">=2.2,<3"}),
        ("torch~=2.3.1+cu121", {"name": "torch", "specifier": "~=2.3.1+cu121"}),
        ("torch===2.4", {"name": "torch", "specifier": "===2.4"}),
        ("torch==2.*", {"name": "torch", "specifier": "==2.*"}),
        (
            "jax[CUDA_12, tpu]>0.4; python_version < '3.9'",
            {
                "name": "jax",
                "extras": ("cuda-12", "tpu"),
                "specifier": ">0.4",
                "marker": "python_version < '3.9'",
            },
        ),
        ("torch[]", {"name": "torch"}),
        ("torch ; ", {"name": "torch"}),
        # By packaging.
        ("torch (>=2.0)", {"name": "torch", "specifier": ">=2.0"}),
        (
            "torch[b,A] (>=2.0); os_name == 'nt'",
            {
                "name": "torch",
                "specifier": ">=2.0",
                "extras": ("a", "b"),
                "marker": 'os_name == "nt"',
            },
        ),
        # Addresses.
        (
            f"torch @ https://example.invalid/{WHEEL}",
            {
                "name": "torch",
                "specifier": "==2.4.0+cu121",
                "url": f"https://example.invalid/{WHEEL_SHOWN}",
            },
        ),
        (
            f"Torch[gpu]@file:///a/{WHEEL}#sha256=ab ; os_name == 'nt'",
            {
                "name": "torch",
                "specifier": "==2.4.0+cu121",
                "extras": ("gpu",),
                "url": f"file:///a/{WHEEL_SHOWN}#sha256=ab",
                "marker": "os_name == 'nt'",
            },
        ),
        (
            "apex @ git+https://example.invalid/NVIDIA/apex.git@feature/x",
            {
                "kind": "source",
                "name": "apex",
                "url": "git+https://example.invalid/NVIDIA/apex.git@feature/x",
            },
        ),
        (
            "x @ ./vendored",
            {"kind": "source", "name": "x", "url": "./vendored"},
        ),
        (
            f"https://example.invalid/whl/cu121/{WHEEL}; os_name == 'nt'",
            {
                "name": "torch",
                "specifier": "==2.4.0+cu121",
                "url": f"https://example.invalid/whl/cu121/{WHEEL_SHOWN}",
                "marker": "os_name == 'nt'",
            },
        ),
        (
            f"./wheels/{WHEEL_SHOWN}[opt];os_name == 'nt'",
            {
                "name": "torch",
                "specifier": "==2.4.0+cu121",
                "extras": ("opt",),
                "url": f"./wheels/{WHEEL_SHOWN}",
                "marker": "os_name == 'nt'",
            },
        ),
        (
            "torch-2.4.0-cp310-cp310-linux_x86_64.whl",
            {
                "name": "torch",
                "specifier": "==2.4.0",
                "url": "torch-2.4.0-cp310-cp310-linux_x86_64.whl",
            },
        ),
        (
            "torch-2.4.0-1-cp310-cp310-linux_x86_64.whl",
            {
                "name": "torch",
                "specifier": "==2.4.0",
                "url": "torch-2.4.0-1-cp310-cp310-linux_x86_64.whl",
            },
        ),
        (
            r"C:\wheels\torch-2.4.0-cp310-cp310-win_amd64.whl",
            {
                "name": "torch",
                "specifier": "==2.4.0",
                "url": r"C:\wheels\torch-2.4.0-cp310-cp310-win_amd64.whl",
            },
        ),
        (
            "https://example.invalid/flash_attn-2.6.3.tar.gz",
            {
                "name": "flash-attn",
                "specifier": "==2.6.3",
                "url": "https://example.invalid/flash_attn-2.6.3.tar.gz",
            },
        ),
        (
            "https://example.invalid/NVIDIA/apex/archive/master.zip",
            {
                "kind": "source",
                "name": "apex",
                "url": "https://example.invalid/NVIDIA/apex/archive/master.zip",
            },
        ),
        (
            "https://example.invalid/group/apex/-/archive/1/x.zip#egg=Other",
            {
                "kind": "source",
                "name": "other",
                "url": "https://example.invalid/group/apex/-/archive/1/x.zip#egg=Other",
            },
        ),
        (
            f"https://example.invalid/{'1-' * 200}.zip",
            {"kind": "source", "url": f"https://example.invalid/{'1-' * 200}.zip"},
        ),
        (
            "git+https://example.invalid/Dao-AILab/flash-attention.git@v2.6.3",
            {
                "kind": "source",
                "name": "flash-attention",
                "url": "git+https://example.invalid/Dao-AILab/flash-attention.git@v2.6.3",
            },
        ),
        (
            "git+ssh://git@example.invalid/a/b@main#egg=Real_Name[x,y]&subdirectory=c",
            {
                "kind": "source",
                "name": "real-name",
                "extras": ("x", "y"),
                "url": "git+ssh://example.invalid/a/b@main#egg=Real_Name[x,y]&subdirectory=c",
            },
        ),
        (
            "git+git@example.invalid:a/b.git",
            {"kind": "source", "name": "b", "url": "git+git@example.invalid:a/b.git"},
        ),
        (
            "hg+https://example.invalid/b/ ;os_name == 'nt'",
            {
                "kind": "source",
                "name": "b",
                "url": "hg+https://example.invalid/b/",
                "marker": "os_name == 'nt'",
            },
        ),
        (".", {"kind": "source", "url": "."}),
        (".[cuda, dev]", {"kind": "source", "url": ".", "extras": ("cuda", "dev")}),
        ("[x]/y]", {"kind": "source", "url": "[x]/y]"}),
        ("file:.", {"kind": "source", "url": "file:."}),
        ("third_party/apex", {"kind": "source", "url": "third_party/apex"}),
        ("~/apex", {"kind": "source", "url": "~/apex"}),
        ("/opt/my apex", {"kind": "source", "url": "/opt/my apex"}),
    ],
)
def test_what_a_requirement_asks_for(text: str, expected: dict[str, object]) -> None:
    entry = entry_of(text, "requirements.txt:3")
    assert fields(entry) == expected
    assert (entry.where, entry.text) == ("requirements.txt:3", shown(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expected package name at the start of dependency specifier"),
        ("torch=2.0", "Expected semicolon (after name with no version specifier) or end"),
        ("torch @", "Expected URL after @"),
        ("; os_name == 'nt'", "Expected package name at the start of dependency specifier"),
        ("a b/c", "Expected semicolon (after name with no version specifier) or end"),
        ("t" * (LONGEST_REQUIREMENT + 1), "16,385 characters long"),
    ],
)
def test_what_is_none_says_why(text: str, reason: str) -> None:
    entry = entry_of(text, "a:1")
    assert fields(entry) == {"kind": "unreadable", "reason": reason}


def test_nesting_that_packaging_cannot_follow_is_unreadable() -> None:
    assert entry_of("torch (>=2); " + "(" * 5000, "a:1").kind == "unreadable"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("detectron2_repo", {"url": "detectron2_repo"}),
        (".[cuda]", {"url": ".", "extras": ("cuda",)}),
        (
            "git+https://example.invalid/a/b#egg=c ; os_name == 'nt'",
            {
                "name": "c",
                "url": "git+https://example.invalid/a/b#egg=c",
                "marker": "os_name == 'nt'",
            },
        ),
        (
            "x @ git+https://example.invalid/a/b",
            {"name": "x", "url": "git+https://example.invalid/a/b"},
        ),
        ("./a/x-1.0.zip", {"name": "x", "url": "./a/x-1.0.zip"}),
    ],
)
def test_an_editable_is_a_source_whatever_it_looks_like(
    text: str, expected: dict[str, object]
) -> None:
    entry = entry_of(text, "a:1", editable=True)
    assert fields(entry) == {"kind": "source", **expected}


@pytest.mark.parametrize("text", ["torch", "torch (>2)", ".", "torch=2", "t" * 20_000])
def test_what_the_reader_knows_is_kept(text: str) -> None:
    entry = entry_of(
        text,
        "a:1",
        text="pip  install\ttorch",
        scope="task",
        fresh=True,
        flags=("--no-deps",),
        option="-e",
    )
    assert (entry.text, entry.scope, entry.fresh) == ("pip install torch", "task", True)
    assert (entry.flags, entry.option) == (("--no-deps",), "-e")


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"https://{SECRET}@example.invalid/simple", "https://example.invalid/simple"),
        (f"https://user:{SECRET}@example.invalid/x", "https://example.invalid/x"),
        (f"https://user@mail:{SECRET}@x@example.invalid/x", "https://example.invalid/x"),
        (f"https://user:a/b?{SECRET}#c@example.invalid/x", "https://example.invalid/x"),
        (f"https://user:%40{SECRET}%2F@example.invalid/x", "https://example.invalid/x"),
        (f"https://user:12%2F{SECRET}@example.invalid/x", "https://example.invalid/x"),
        ("https://${USER}:${TOKEN}@example.invalid/x", "https://example.invalid/x"),
        (f"https://example.invalid/x?token={SECRET}&b=1#egg=a", "https://example.invalid/x#egg=a"),
        (f"https://example.invalid/x?a=1;b={SECRET}", "https://example.invalid/x"),
        (f"git+ssh://git:{SECRET}@example.invalid:22/a@v1", "git+ssh://example.invalid:22/a@v1"),
        (f"https://user:p@a/{SECRET}@example.invalid/x", "https://example.invalid/x"),
        (f"//user:{SECRET}@example.invalid/x", "//example.invalid/x"),
        (f"https:/user:{SECRET}@example.invalid/x", "https:/example.invalid/x"),
        (f"user:{SECRET}@example.invalid/cuda:12@sha256:ab", "example.invalid/cuda:12@sha256:ab"),
        # These have none.
        ("example/cuda:12@sha256:ab", "example/cuda:12@sha256:ab"),
        ("git@example.invalid:a/b.git@v1", "git@example.invalid:a/b.git@v1"),
        ("https://user:word@host/a.git@v2.0", "https://host/a.git@v2.0"),
        ("https://example.invalid:8080/@scope/a", "https://example.invalid:8080/@scope/a"),
        ("git+ssh://example.invalid:a/b@v1", "git+ssh://example.invalid:a/b@v1"),
        ("file:///a@b/c%20d", "file:///a@b/c d"),
        ("./what?", "./what?"),
    ],
)
def test_no_credentials_are_kept(url: str, expected: str) -> None:
    assert address(url) == expected
    assert SECRET not in shown(f"--index-url={url} # and more")
    entry = entry_of(f"torch @ {url.replace(' ', '')}", "a:1")
    assert SECRET not in str(entry)
    assert SECRET not in str(entry_of(url, "a:1", editable=True))


def test_what_undoing_the_encoding_brings_to_light_goes_too() -> None:
    assert address(f"https:%2F%2Fa:{SECRET}@example.invalid/x") == "https://example.invalid/x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "https://a:b@example.invalid/?x=1; os_name == 'nt'",
            "https://example.invalid/?...; os_name == 'nt'",
        ),
        ("-i 'https://a:b@example.invalid' torch", "-i 'https://example.invalid' torch"),
        ("https://a:b@x://c:d@y", "https://x://y"),
        ("torch @ name", "torch @ name"),
    ],
)
def test_only_credentials_are_left_out(text: str, expected: str) -> None:
    assert public(text) == expected
    assert public(expected) == expected


def test_credentials_go_before_a_text_is_cut() -> None:
    long = f"torch @ https://user:{SECRET}{'x' * 4000}@example.invalid/a.whl"
    assert shown(long) == "torch @ https://example.invalid/a.whl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch", "torch"),
        (" torch \t ==\n2 ", "torch == 2"),
        ("torch  # \x1b[31m注释", "torch # \ufffd[31m注释"),
        ("t" * LONGEST_TEXT, "t" * LONGEST_TEXT),
        ("t" * 100_000, "t" * (LONGEST_TEXT - 3) + "..."),
    ],
)
def test_a_text_is_shown_on_one_line(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_no_field_holds_what_a_terminal_obeys() -> None:
    for text in (
        "torch; \x1b[31m",
        "./a\x1b[31m;\x1bb",
        "a @ b\x1b ; \x1bc",
        "a (>1); '\x1b' == a",
    ):
        assert "\x1b" not in "".join(map(str, entry_of(text, "a:1")))


PIECES = st.sampled_from(
    [*"[](){};:@#?/\\'\" \t,.=<>~!*+-_&%", "torch", "2.4", "git+", "://", "file:", ".whl", "\x1b"]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.booleans())
def test_any_text_is_an_entry(text: str, editable: bool) -> None:  # noqa: FBT001
    entry = entry_of(text, "a:1", editable=editable)
    assert bool(entry.reason) == (entry.kind == "unreadable")
    assert entry.kind != "requirement" or entry.name
    assert "\x1b" not in "".join(map(str, entry))
