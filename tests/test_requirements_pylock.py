import pytest
from entry_lines import lines
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements import pylock

PYLOCK = """\
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.10"
extras = ["gpu"]

[[packages]]
name = "certifi"
version = "2025.8.3"
index = "https://u:p@example.invalid/simple"
sdist = { url = "https://example.invalid/certifi-2025.8.3.tar.gz", hashes = { sha256 = "e" } }
wheels = [{ url = "https://example.invalid/certifi-2025.8.3-py3-none-any.whl", size = 1 }]

[[packages]]
name = "torch"
version = "2.4.0"
marker = "sys_platform == 'linux' and 'gpu' in extras"
index = "https://example.invalid/whl/cu121"
wheels = [
    { name = "torch-2.4.0+cu121-cp310-cp310-linux_x86_64.whl", url = "https://example.invalid/x" },
]

[[packages]]
name = "torchvision"

[[packages.wheels]]
name = "torchvision-0.19.0+cu121-cp310-cp310-win_amd64.whl"
url = "https://example.invalid/torchvision-0.19.0%2Bcu121-cp310-cp310-win_amd64.whl"

[packages.wheels.hashes]
sha256 = "x"

[[packages]]
name = "triton"
wheels = [{ path = "dist/triton-3.0.0-1-cp310-cp310-linux_x86_64.whl" }]

[[packages]]
name = "apex"
vcs = { type = "git", url = "https://example.invalid/apex", commit-id = "abc" }

[[packages]]
name = "mine"
[packages.directory]
path = "../mine"
editable = true

[[packages]]
name = "self"
directory = { path = ".", editable = true }

[[packages]]
name = "archive"
archive = { url = "https://example.invalid/archive-1.0.tar.gz", hashes = { sha256 = "x" } }

[[packages]]
name = "local"
archive = { path = "local-1.0.zip" }

[[packages]]
name = "anything"

[tool.x]
packages = 3
"""
ENTRIES = [
    "7 index @https://example.invalid/simple <lock> lock",
    "7 requirement certifi ==2025.8.3 <lock>",
    "14 index @https://example.invalid/whl/cu121 <lock> lock",
    "14 requirement torch ==2.4.0+cu121 ;sys_platform == 'linux' and os_name != '' <lock>",
    "23 requirement torchvision ==0.19.0+cu121 <lock>",
    "33 requirement triton ==3.0.0 <lock>",
    "37 source apex @git+https://example.invalid/apex@abc <lock>",
    "41 source mine @../mine <lock>",
    "51 requirement archive ==1.0 @https://example.invalid/archive-1.0.tar.gz <lock>",
    "55 requirement local ==1.0 @./local-1.0.zip <lock>",
    "59 requirement anything <lock>",
]


def test_a_lock_is_read() -> None:
    found = list(pylock.read("pylock.toml", PYLOCK))
    assert lines(found) == ENTRIES
    assert not any(entry.fresh for entry in found)
    assert "u:p" not in repr(found)


@pytest.mark.parametrize("text", ["[[packages]]\nname = ", "[[packages]\nname = 'torch'", "x"])
def test_a_broken_lock_is_one_entry(text: str) -> None:
    (entry,) = pylock.read("l", text)
    assert entry.kind == "unreadable"
    assert not entry.fresh


@given(st.integers(0, 2000), st.integers(0, 9), st.text(max_size=4))
def test_damage_is_an_entry_and_no_exception(at: int, cut: int, put: str) -> None:
    damaged = PYLOCK[:at] + put + PYLOCK[at + cut :]
    for entry in pylock.read("l", damaged):
        assert 1 <= int(entry.where.removeprefix("l:")) <= damaged.count("\n") + 1
