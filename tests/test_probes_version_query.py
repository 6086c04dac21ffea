import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import host, sample

from musadoctor.facts import Absent, Component, Unknown, VersionQuery
from musadoctor.probes.version_query import (
    ask_version_query,
    component_of,
    parse_version_query,
)
from musadoctor.system import Ran
from musadoctor.versions import ComponentVersion

PATH = "/usr/local/musa-5.2.0/bin/musa_version_query"

# The components that state a version, as one reads them in the sample.
SAMPLE_VERSIONS = {
    "musa_version_query-2.0.0-dec2023.partial.txt": (
        "musa_toolkits 2.0.0, mcc 2.0.0, mccl 2.11.4 mp_21"
    ),
    "musa_version_query-2.0.0-rc2.1.0.partial.txt": (
        "musa_toolkits 2.0.0, mcc 2.1.0, muAlg_dev 0.3.0, mublas 1.4.0 mp_21"
    ),
    "musa_version_query_2.0.0_s80_head.txt": (
        "musa_toolkits 2.0.0, mcc 2.1.0, muAlg_dev 0.3.0, mublas 1.4.0 mp_21"
    ),
    "musa_version_query-3.1.0-full.txt": (
        "musa_toolkits 3.1.0, CUB 1.12.1, Thrust 1.12.1, mcc 3.1.0, mccl 2.11.4 mp_22, "
        "muPP 1.7.0 mp_21 mp_22, mublas 1.6.0 mp_21 mp_22, mudnn 2.7.0, mufft 1.6.0 mp_21 mp_22, "
        "murand 1.0.0 mp_21 mp_22, musify 1.0.0, musolver 1.0.0 mp_21 mp_22, "
        "musparse 1.1.0 mp_21 mp_22, musa_runtime 3.1.0"
    ),
    "musa_version_query_3.1.0_s4000.txt": (
        "musa_toolkits 3.1.0, CUB 1.12.1, Thrust 1.12.1, mcc 3.1.0, mccl 2.11.4 mp_22, "
        "muPP 1.7.0 mp_21 mp_22, mublas 1.6.0 mp_21 mp_22, mudnn 2.7.0, mufft 1.6.0 mp_21 mp_22, "
        "murand 1.0.0 mp_21 mp_22, musify 1.0.0, musolver 1.0.0 mp_21 mp_22, "
        "musparse 1.1.0 mp_21 mp_22, musa_runtime 3.1.0"
    ),
    "musa_version_query-4.1.0-s4000.partial.txt": (
        "musa_toolkits 4.1.0, CUB 1.12.1, mccl 2.11.4 mp_22, mcc 3.1.0, mublas 1.6.0 mp_22"
    ),
    "musa_version_query-4.2.0-s80.partial.txt": (
        "musa_toolkits 4.2.0, mcc 4.2.0, mublasLt 0.1.0 mp_21 mp_22 mp_31, "
        "mublas 1.9.0 mp_21 mp_22 mp_31, mudnn 3.0.0, mufft 1.9.0 mp_21 mp_22 mp_31"
    ),
    "musa_version_query_5.2.0_s5000_excerpt.txt": (
        "musa_toolkits 5.2.0, mcc 5.2.0, musa_runtime 5.2.0"
    ),
    "musa_runtime_version_4.1.0_whitespace-stripped.txt": "musa_runtime 4.1.0",
    "musa_runtime_version_two-block-shape.txt": "musa_runtime 3.1.0",
}


def shown(components: tuple[Component, ...]) -> str:
    return ", ".join(" ".join((c.name, str(c.version), *c.architectures)) for c in components)


@pytest.mark.parametrize("name", SAMPLE_VERSIONS)
def test_sample(name: str) -> None:
    assert shown(parse_version_query(sample(name))) == SAMPLE_VERSIONS[name]


@pytest.mark.parametrize(
    ("name", "component", "branch", "commit"),
    [
        (
            "musa_version_query-3.1.0-full.txt",
            "mccl",
            "kuae1.3.0_musa3.1.0_mccl1.7.0",
            "3354f892e15c13ef74b6d7d1bee317c11f9d0af6",
        ),
        (
            "musa_version_query-4.1.0-s4000.partial.txt",
            "musa_toolkits",
            "release_musa_4.1.1",
            "9a3dd9fad4c5c80a64c2badc6228480cde5e7aac",
        ),
        (
            "musa_runtime_version_4.1.0_whitespace-stripped.txt",
            "musa_runtime",
            "HEAD",
            "1301a3d6b62f56f6fe0126be25f34e6aac0c95ff",
        ),
        ("musa_version_query_5.2.0_s5000_excerpt.txt", "mcc", None, None),
    ],
)
def test_sample_origin(name: str, component: str, branch: str | None, commit: str | None) -> None:
    (found,) = (c for c in parse_version_query(sample(name)) if c.name == component)
    assert (found.branch, found.commit) == (branch, commit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('mcc:\n{\n\t"version":\t"3.0.0,\n\t"git branch":\t"x"\n}\n', "mcc 3.0.0"),
        ('mcc:\n{\n\tversion":\t"3.0.0",\n}\n', "mcc 3.0.0"),
        ('mcc:\n{\n\t"version":\t3.0.0",\n}\n', "mcc 3.0.0"),
        ('mcc:\r\n{\r\n\t"version":\t"3.0.0"\r\n}\r\n', "mcc 3.0.0"),
        ('a:{"version":"1.0","buildarchs":"21"}b:{"version":"2.0"}', "a 1.0 mp_21, b 2.0"),
        ('a:\n{\n"version": "1.0"\n}\nb:\n{\n"vers', "a 1.0"),
        ('a:\n{\n"version": "1.0"\nb:\n{\n"version": "2.0', "a 1.0, b 2.0"),
        ('mcc:\n{\n"version": "No version"\n}', ""),
        ("mcc: command not found", ""),
        ("", ""),
    ],
)
def test_damaged_output(text: str, expected: str) -> None:
    assert shown(parse_version_query(text)) == expected


def test_every_cut_of_a_sample_gives_its_first_blocks() -> None:
    whole = sample("musa_version_query-3.1.0-full.txt")
    components = parse_version_query(whole)
    for length in range(len(whole)):
        found = parse_version_query(whole[:length])
        assert found[:-1] == components[: max(0, len(found) - 1)]


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_version_query(text)


@given(
    st.lists(st.sampled_from(['"', "{", "}", ":", "\n", "version", "1.0", "9" * 5000, " ", ","]))
)
def test_any_heap_of_tokens_is_read(tokens: list[str]) -> None:
    parse_version_query("mcc:{" + "".join(tokens))


def test_a_long_heap_of_letters_takes_no_time() -> None:
    assert parse_version_query("a" * 1_000_000) == ()
    assert parse_version_query("mcc:{" + "a" * 1_000_000) == ()


def test_a_number_is_no_version() -> None:
    # A version of 4.10 that went through a number would read 4.1.
    assert component_of("mcc", {"version": 4.1}) is None
    assert component_of("mcc", {}) is None


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (
            Ran("ok", 0, 'mcc:\n{\n"version": "5.2.0"\n}'),
            VersionQuery(
                (Component("mcc", ComponentVersion("5.2.0", (5, 2, 0))),),
                PATH,
            ),
        ),
        (
            Ran("failed", 1, 'mcc:\n{\n"version": "5.2.0"\n}', note="exit code 1"),
            VersionQuery(
                (Component("mcc", ComponentVersion("5.2.0", (5, 2, 0))),),
                PATH,
            ),
        ),
        (Ran("ok", 0, "hello"), Unknown(f"{PATH}: printed no version")),
        (Ran("failed", 1, note="exit code 1"), Unknown(f"{PATH}: exit code 1")),
        (Ran("signal", -11, note="SIGSEGV"), Unknown(f"{PATH}: killed by SIGSEGV")),
        (
            Ran("timed out", note="no answer in 10 s, killed"),
            Unknown(f"{PATH}: no answer in 10 s, killed"),
        ),
        (Ran("flooded"), Unknown(f"{PATH}: flooded")),
        (Ran("not there", note=f"no {PATH}"), Absent(f"no {PATH}")),
    ],
)
def test_how_the_tool_ends(ran: Ran, expected: object) -> None:
    assert ask_version_query(host(runs={PATH: ran}), PATH) == expected
