import json

import pytest
from entry_lines import lines
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements import json_text, pipfile
from musadoctor.requirements.broken import BrokenError

PIPFILE = """\
[[source]]
url = "https://u:p@download.example.invalid/whl/cu118"
verify_ssl = true
name = "pytorch"

[packages]
torch = {version = "==2.1.0+cu118", index = "pytorch"}
numpy = "*"
requests = {extras = ["socks"], version = ">=2", sys_platform = "== 'linux'", markers = "os_name == 'posix'"}
flask = {git = "https://example.invalid/flask.git", ref = "2.0", editable = true}
mine = {path = "."}
tf = {file = "https://example.invalid/tensorflow-1.11.0-cp37-cp37m-linux_x86_64.whl"}
odd = 3
lost = {version = "*", index = "none"}
[packages.table]
version = "~=1.0"

[dev-packages]
"flake8" = "*"
[docs-packages]
sphinx = ">=4"
[docs]
furo = "*"

[requires]
python_version = "3.10"
[scripts]
x = "y"
[pipenv]
allow_prereleases = true
"""
PIPFILE_ENTRIES = [
    "2 index @https://download.example.invalid/whl/cu118 source",
    "7 requirement torch ==2.1.0+cu118",
    "7 index torch @https://download.example.invalid/whl/cu118 index",
    "8 requirement numpy",
    "9 requirement requests[socks] >=2 ;(os_name == 'posix') and (sys_platform == 'linux')",
    "10 source flask @git+https://example.invalid/flask.git@2.0",
    "11 source mine @.",
    (
        "12 requirement tensorflow ==1.11.0 "
        "@https://example.invalid/tensorflow-1.11.0-cp37-cp37m-linux_x86_64.whl"
    ),
    "13 unreadable !no dependency as pipenv has it: odd",
    "14 requirement lost",
    "14 index lost @none index",
    "15 requirement table ~=1.0",
    "19 requirement flake8 <group:dev>",
    "21 requirement sphinx >=4 <group:docs>",
    "23 requirement furo <group:docs>",
]
LOCK = {
    "_meta": {
        "hash": {"sha256": "x"},
        "pipfile-spec": 6,
        "sources": [
            {"name": "pypi", "url": "https://u:p@example.invalid/simple", "verify_ssl": True},
            {"name": "pytorch", "url": "https://example.invalid/whl/cu118"},
        ],
    },
    "default": {
        "torch": {"hashes": ["sha256:x"], "index": "pytorch", "version": "==2.1.0+cu118"},
        "colorama": {"markers": "sys_platform == 'win32'", "version": "==0.4"},
        "mine": {"editable": True, "path": "../mine"},
        "old": "==1.0",
        "broken": [],
    },
    "develop": {"pytest": {"version": "==7.0", "extras": ["x"]}},
    "odd": 3,
}
LOCK_ENTRIES = [
    "10 index @https://example.invalid/simple <lock> source",
    "15 index @https://example.invalid/whl/cu118 <lock> source",
    "20 requirement torch ==2.1.0+cu118 <lock>",
    "27 requirement colorama ==0.4 ;sys_platform == 'win32' <lock>",
    "31 source mine @../mine <lock>",
    "35 requirement old ==1.0 <lock>",
    "36 unreadable <lock> !no dependency as pipenv has it: broken",
    "39 requirement pytest[x] ==7.0 <lock>",
    "46 unreadable <lock> !no dependency as pipenv has it: odd",
]


def test_a_pipfile_is_read() -> None:
    found = list(pipfile.read("Pipfile", PIPFILE))
    assert lines(found) == PIPFILE_ENTRIES
    assert all(entry.fresh for entry in found)
    assert "u:p" not in repr(found)


def test_a_lock_is_read() -> None:
    found = list(pipfile.read("Pipfile.lock", json.dumps(LOCK, indent=4)))
    assert lines(found) == LOCK_ENTRIES
    assert all(entry.fresh for entry in found)
    assert "u:p" not in repr(found)
    assert found[2].text == "torch==2.1.0+cu118"


def test_the_layout_of_a_lock_does_not_matter() -> None:
    in_one_line = lines(pipfile.read("Pipfile.lock", json.dumps(LOCK)))
    assert in_one_line == [f"1 {line.partition(' ')[2]}" for line in LOCK_ENTRIES]


BROKEN = {
    "no TOML": ("[packages\ntorch = 1", "p:1", "no valid TOML"),
    "cut": ('{"default": {\n"torch": {"version": "==2"', "p:2", "no valid JSON"),
    "a key that is none": ("{\n3: 4}", "p:2", "a key is no string"),
    "no colon": ('{"a" 4}', "p:1", "':' is missing"),
    "no comma": ('{"a": 4\n"b": 5}', "p:2", "',' is missing"),
    "no value": ('{"a": }', "p:1", "Expecting value"),
    "something after it": ("{}\n\nx", "p:3", "something follows"),
    "deep": ('{"a": {"b": ' + "[" * 100_000, "p:1", "nested too deeply"),
    "a long number": ('{"a": ' + "1" * 5000 + "}", "p:1", "a number too long"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_one_entry(case: str) -> None:
    text, where, reason = BROKEN[case]
    *_, entry = pipfile.read("p", text)
    assert (entry.kind, entry.where, entry.fresh) == ("unreadable", where, True)
    assert reason in entry.reason


def test_what_came_before_a_cut_is_told() -> None:
    text = json.dumps(LOCK, indent=4)
    cut = text[: text.index("colorama") + 30]
    assert lines(pipfile.read("p", cut))[:3] == LOCK_ENTRIES[:3]


def test_json_begins_with_an_object() -> None:
    with pytest.raises(BrokenError, match="begins with no object"):
        list(json_text.members(" []", 1))


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=15,
)


@given(st.dictionaries(st.text(max_size=5), TREES), st.sampled_from([None, 2]))
def test_the_members_are_those_of_the_json_library(
    tree: dict[str, object], indent: int | None
) -> None:
    text = json.dumps(tree, indent=indent)
    expected: list[tuple[tuple[str, ...], object]] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            expected += [((key, inner), one) for inner, one in value.items()]
        else:
            expected.append(((key,), value))
    found = list(json_text.members(text, 2))
    assert [(keys, value) for keys, _, value in found] == expected
    assert all(text.startswith(json.dumps(keys[-1]), at) for keys, at, _ in found)


@given(
    st.sampled_from([PIPFILE, json.dumps(LOCK, indent=4)]),
    st.integers(0, 1500),
    st.integers(0, 5),
    st.text(max_size=3),
)
def test_damage_is_an_entry_and_no_exception(text: str, at: int, cut: int, put: str) -> None:
    damaged = text[:at] + put + text[at + cut :]
    for entry in pipfile.read("p", damaged):
        assert 1 <= int(entry.where.removeprefix("p:")) <= damaged.count("\n") + 1
