"""Real resolvers, asked what they would do to an environment with the vendor's stack."""

import functools
import http.server
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from installer_lab import Lab, stack
from wheel_index import STOCK, Wheel, write_wheel

from musadoctor.api import Absent, Finding, Unknown
from musadoctor.engine import judge
from musadoctor.facts.requirements import (
    Entry,
    Replacement,
    Requirements,
    Resolution,
    Stack,
    Unresolved,
)
from musadoctor.guard.deep import ADDRESS, MOST_LINES, SOURCE_ONLY, Limits, progress, resolve
from musadoctor.guard.host import assumed, stack_of
from musadoctor.guard.plans import Edge, Plan, pip_plan_of, replacements, uv_plan_of
from musadoctor.live import Live
from musadoctor.requirements.pip_file import read
from musadoctor.requirements.requirement import entry_of
from musadoctor.system import Platform
from musadoctor_checks.requirements.deep import resolution_incomplete, torch_replaced_by_resolver

TAGGED = "2.9.1.post1+musa5.2.0"
WHEELS = (
    *STOCK,
    Wheel("vllm-musa", "0.1.1", ("vllm",)),
    Wheel("needs-source", "1.0", ("source-only",)),
    Wheel("extra-torch", "1.0", ('torch==2.5.0; extra == "gpu"', 'ghost; sys_platform == "win32"')),
    Wheel("big", "1.0", (), {"big/data": "x" * (8 << 20)}),
)
LIMITS = Limits()
NO_WHEEL = "not judged: no wheel on the index that fits (source only would run build code)"


class Index(NamedTuple):
    url: str
    bare: str
    """The same without metadata beside the wheels."""
    asked: list[str]
    """The paths that were asked for."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index that offers metadata (PEP 658), as the large ones do, and tells what was fetched."""
    root = tmp_path_factory.mktemp("index")
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            asked.append(self.path)

        def copyfile(self, source: Any, outputfile: Any) -> None:
            # What is large takes a while, in which what was written can be seen.
            if "/big-" in self.path:
                outputfile.write(source.read(4 << 20))
                time.sleep(0.5)
            super().copyfile(source, outputfile)

    (root / "files").mkdir()
    links: dict[str, list[tuple[str, bool]]] = {"source-only": [("source_only-1.0.tar.gz", False)]}
    for wheel in WHEELS:
        path = write_wheel(root / "files", wheel)
        requires = "".join(f"Requires-Dist: {line}\n" for line in wheel.requires)
        metadata = (
            f"Metadata-Version: 2.1\nName: {wheel.name}\nVersion: {wheel.version}\n{requires}"
            "Provides-Extra: gpu\n"
        )
        path.with_name(f"{path.name}.metadata").write_text(metadata)
        links.setdefault(wheel.name, []).append((path.name, True))
    for kind in ("simple", "bare"):
        for name, files in links.items():
            page = root / kind / name / "index.html"
            page.parent.mkdir(parents=True)
            attribute = {True: ' data-core-metadata="true"', False: ""}
            page.write_text(
                "".join(
                    f'<a href="/files/{file}"{attribute[is_wheel and kind == "simple"]}>{file}</a>\n'
                    for file, is_wheel in files
                )
            )
    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield Index(f"{url}/simple/", f"{url}/bare/", asked)
        server.shutdown()


class Elsewhere(Live):
    """This machine, with musadoctor run by another Python."""

    def __init__(self, own: str) -> None:
        super().__init__(time.monotonic() + 200)
        self._own = own

    def platform(self) -> Platform:
        return super().platform()._replace(own_python=self._own)


class Place(NamedTuple):
    """An environment, and a machine that has one resolver."""

    python: str
    live: Live
    stack: Stack
    named: str

    def ask(self, lines: str | Sequence[Entry], limits: Limits = LIMITS) -> Resolution | Unknown:
        entries = tuple(read("r.txt", lines)) if isinstance(lines, str) else tuple(lines)
        return resolve(self.live, Requirements((), entries), self.stack, self.python, limits)


_stacks: dict[str, Stack] = {}
_named: dict[tuple[str, str], str] = {}
"""What is asked of an environment once: it stays as it is."""


def environment(lab: Lab, generation: str, pip: str) -> str:
    """Made once: a dry run changes nothing."""
    target = lab.root / "deep" / f"{generation}-{pip}"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        lab.environment(target, generation, pip)
    return str(target / "bin" / "python")


def place(
    lab: Lab,
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resolver: str,
    generation: str = "tagged",
) -> Place:
    """``uv``; ``pip`` of the environment; ``own pip``, where that one is too old."""
    variables = {
        **lab.variables(tmp_path),
        "PIP_INDEX_URL": index.url,
        "UV_DEFAULT_INDEX": index.url,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": str(lab.tools) if resolver == "uv" else str(tmp_path),
    }
    for name in set(os.environ) - variables.keys():
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    pip = "newest" if resolver == "pip" else "oldest"
    python = environment(lab, generation, pip)
    own = environment(lab, generation, "newest") if resolver == "own pip" else python
    live = Elsewhere(own)
    if python not in _stacks:
        found = stack_of(Live(time.monotonic() + 60, python))
        assert isinstance(found, Stack)
        _stacks[python] = found
    if (resolver, python) not in _named:
        answer = resolve(live, Requirements((), ()), _stacks[python], python)
        _named[resolver, python] = answer.resolver if isinstance(answer, Resolution) else ""
    return Place(python, live, _stacks[python], _named[resolver, python])


@pytest.fixture(params=["uv", "pip"])
def either(
    request: pytest.FixtureRequest,
    lab: Lab,
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    return place(lab, index, tmp_path, monkeypatch, request.param)


@pytest.fixture
def pip(lab: Lab, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(lab, index, tmp_path, monkeypatch, "pip")


def test_what_leads_to_another_torch_and_what_cannot_be_asked(either: Place, index: Index) -> None:
    """And that for all of it not one wheel is downloaded, and nothing is installed."""
    asked = either
    before = stack(Path(asked.python))
    index.asked.clear()
    lines = """
        accelerate
        vllm-musa
        source-only
        needs-source
        git+https://github.com/example/thing.git#egg=thing
        other @ https://example.invalid/other-1.0-py3-none-any.whl
        new-by-somebody; sys_platform == "win32"
    """
    answer = asked.ask(lines)
    why = SOURCE_ONLY if asked.named.startswith("uv") else NO_WHEEL
    assert isinstance(answer, Resolution)
    through = ("vllm-musa", "vllm")
    # torchaudio 2.9.1+musa5.2.0 satisfies ==2.9.1.
    assert sorted(answer.replacements) == [
        Replacement("torch", TAGGED, "2.9.1", (*through, "torch==2.9.1"), "r.txt:3"),
        Replacement(
            *("torchvision", "0.24.1.post1+musa5.2.0", "0.24.1"),
            (*through, "torchvision==0.24.1"),
            "r.txt:3",
        ),
        Replacement("triton", "3.2.0", "3.5.1", (*through, "torch", "triton==3.5.1"), "r.txt:3"),
    ]
    assert sorted(answer.unresolved) == [
        Unresolved("r.txt:4", "source-only", why),
        Unresolved("r.txt:5", "needs-source", why),
        Unresolved("r.txt:6", "git+https://github.com/example/thing.git#egg=thing", SOURCE_ONLY),
        Unresolved(
            "r.txt:7", "other @ https://example.invalid/other-1.0-py3-none-any.whl", ADDRESS
        ),
    ]
    assert (answer.resolved, answer.notes) == (2, ())
    assert str(answer) == f"{asked.named} resolved 2 requirements"
    assert index.asked
    assert not [path for path in index.asked if path.endswith((".whl", ".gz"))]
    assert stack(Path(asked.python)) == before


def test_where_the_environment_s_pip_is_too_old_our_own_is_asked(
    lab: Lab, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About that environment, of course."""
    asked = place(lab, index, tmp_path, monkeypatch, "own pip")
    before = stack(Path(asked.python))
    index.asked.clear()
    answer = asked.ask("vllm-musa")
    assert isinstance(answer, Resolution)
    assert (answer.resolver, answer.unresolved) == (asked.named, ())
    torch = ("vllm-musa", "vllm", "torch==2.9.1")
    assert Replacement("torch", TAGGED, "2.9.1", torch, "r.txt:1") in answer.replacements
    assert not [path for path in index.asked if path.endswith((".whl", ".gz"))]
    assert stack(Path(asked.python)) == before


def test_lines_that_exclude_one_another_are_judged_apart(either: Place) -> None:
    answer = either.ask("capped-by-somebody\nnew-by-somebody\n")
    assert isinstance(answer, Resolution)
    planned = {(one.where, one.chain) for one in answer.replacements if one.name == "torch"}
    assert planned == {
        ("r.txt:1", ("capped-by-somebody", "torch==2.5.0")),
        ("r.txt:2", ("new-by-somebody", "torch==2.14.0")),
    }
    assert answer.notes == ("the lines cannot be installed together; 2 parts were judged",)


def test_constraints_hold(either: Place) -> None:
    pin = entry_of("torch>=2.10", "c.txt:1", scope="constraint")
    answer = either.ask([pin, entry_of("accelerate", "r.txt:1")])
    assert isinstance(answer, Resolution)
    assert {one.planned for one in answer.replacements if one.name == "torch"} == {"2.14.0"}


@pytest.mark.parametrize(
    ("flags", "line", "expected"),
    [
        (("--no-deps",), "vllm", set()),
        (("--upgrade",), "accelerate", set()),
        (("--upgrade",), "torch", {("torch==2.14.0",)}),
        (("--force-reinstall",), "accelerate", {("accelerate", "torch==2.14.0")}),
        (
            ("--upgrade", "--upgrade-strategy=eager"),
            "accelerate",
            {("accelerate", "torch==2.14.0")},
        ),
        (("--user",), "accelerate", set()),
    ],
)
def test_flags_of_the_command_count(
    either: Place, flags: tuple[str, ...], line: str, expected: set[tuple[str, ...]]
) -> None:
    answer = either.ask([entry_of(line, "r.txt:1", flags=flags)])
    assert isinstance(answer, Resolution)
    assert {one.chain for one in answer.replacements if one.name == "torch"} == expected


def test_flags_are_those_of_their_own_line(either: Place) -> None:
    eager = entry_of("peft", "r.txt:1", flags=("--upgrade", "--upgrade-strategy=eager"))
    answer = either.ask([eager, entry_of("accelerate", "r.txt:2")])
    assert isinstance(answer, Resolution)
    assert {one.where for one in answer.replacements} == {"r.txt:1"}
    assert answer.resolved == 2


def test_an_old_stack_is_replaced_by_what_the_new_one_satisfies(
    lab: Lab, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = place(lab, index, tmp_path, monkeypatch, "uv", "plain")
    answer = asked.ask("new-by-somebody")
    assert isinstance(answer, Resolution)
    assert answer.replacements[0][:3] == ("torch", "2.5.0", "2.14.0")


def test_files_say_where_to_look(either: Place, tmp_path: Path, index: Index) -> None:
    wheels = tmp_path / "lists" / "wheels"
    wheels.mkdir(parents=True)
    for version, torch in (("1.0", "torch<2"), ("2.0a1", "torch<2.6")):
        write_wheel(wheels, Wheel("only-here", version, (torch,)))
    text = "--no-index\n--find-links wheels\n--pre\nonly-here\n"
    answer = either.ask(list(read("lists/r.txt", text)))
    # No torch is there, and none is looked for elsewhere.
    assert isinstance(answer, Resolution)
    assert [line.text for line in answer.unresolved] == ["only-here"]
    more = Entry("index", "r.txt:1", "", url=index.url, option="--extra-index-url")
    ignored = Entry("index", "r.txt:1", "", url="https://example.invalid/", option="tool.uv.index")
    found = [entry for entry in read("lists/r.txt", text) if entry.option != "--no-index"]
    answer = either.ask([more, ignored, *found])
    assert isinstance(answer, Resolution)
    assert ("torch", "2.5.0", ("only-here", "torch==2.5.0")) in {
        (one.name, one.planned, one.chain) for one in answer.replacements
    }


def test_extras_lead_on(either: Place) -> None:
    answer = either.ask("extra-torch[gpu]")
    assert isinstance(answer, Resolution)
    assert answer.replacements[0].chain == ("extra-torch", "torch==2.5.0")
    assert not getattr(either.ask("extra-torch"), "replacements", True)


def test_what_has_no_vendors_torch_yet_would_get_another(either: Place) -> None:
    new = assumed("new")
    entries = (entry_of("new-by-somebody", "r.txt:1"),)
    answer = resolve(either.live, Requirements((), entries), new, either.python)
    assert isinstance(answer, Resolution)
    assert [one[2:4] for one in answer.replacements] == [
        ("2.14.0", ("new-by-somebody", "torch==2.14.0"))
    ]


def test_no_network_is_said(either: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/simple/")
    answer = either.ask("accelerate\npeft")
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(f"{either.named}: no index answers: ")
    assert "127.0.0.1" in answer.reason


def test_the_time_is_limited(either: Place) -> None:
    answer = either.ask("accelerate", Limits(seconds=0))
    assert answer == Unknown(f"{either.named}: the time for it was over")
    answer = either.ask("accelerate", Limits(seconds=0.01))
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(f"{either.named}: no answer in 0.0")


def test_what_pip_writes_is_limited(
    pip: Place, monkeypatch: pytest.MonkeyPatch, index: Index
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.bare)
    answer = pip.ask("big", Limits(written=1 << 20))
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(f"{pip.named}: more than 1 MiB written, killed")
    assert isinstance(pip.ask("big"), Resolution)


def test_no_pip_that_downloads_wheels_is_asked(
    lab: Lab, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = place(lab, index, tmp_path, monkeypatch, "old pip")
    (tmp_path / "uv").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "uv").chmod(0o755)
    index.asked.clear()
    live = Elsewhere(str(tmp_path / "no-python"))
    requirements = Requirements((), (entry_of("accelerate", "r.txt:1"),))
    answer = resolve(live, requirements, old.stack, old.python)
    version = next(lab.pips["oldest"].glob("pip-*.dist-info")).name[4:-10]
    assert answer == Unknown(
        f"no resolver that leaves wheels where they are: {tmp_path}/uv --version: exit code 3;"
        f" pip {version} in {old.python}; no pip in {tmp_path}/no-python."
        " Install uv, or pip 25.3 or newer"
    )
    assert not index.asked


def test_a_module_named_pip_in_the_current_folder_is_not_run(pip: Place, tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("open('harm', 'w')")
    assert isinstance(pip.ask("accelerate"), Resolution)
    assert not (tmp_path / "harm").exists()


def answering(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Place:
    """A uv or a pip that says what it is told to."""
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("uv", "python"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    live = Elsewhere("")
    return Place(str(folder / "python"), live, assumed("musa"), "")


@pytest.mark.parametrize(
    ("err", "reason"),
    [
        (
            "error: No solution\n  cause: x was not found in the package registry",
            "not judged: not on the index",
        ),
        ("warning: old\nerror: Bad metadata", "not judged: uv 1: error: Bad metadata"),
        ("segfault", "not judged: uv 1: segfault"),
    ],
)
def test_a_line_that_fails_is_set_aside_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, err: str, reason: str
) -> None:
    fails = f"cat >&2 <<'X'\n{err}\nX\nexit 1"
    one = answering(tmp_path, monkeypatch, f"[ $1 = --version ] && echo uv 1 && exit\n{fails}")
    answer = one.ask("x")
    assert isinstance(answer, Resolution)
    assert answer.unresolved == (Unresolved("r.txt:1", "x", reason),)


def test_an_answer_in_the_middle_can_be_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network goes after the first question."""
    text = (
        "[ $1 = --version ] && echo uv 1 && exit\n"
        f"[ -e {tmp_path}/once ] && echo 'error: Failed to fetch: x' >&2 && exit 1\n"
        f"touch {tmp_path}/once; echo 'error: No solution' >&2; exit 1"
    )
    answer = answering(tmp_path, monkeypatch, text).ask("x\ny")
    assert answer == Unknown("uv 1: no index answers: error: Failed to fetch: x")


def test_who_asks_for_what_may_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan stands where the second question fails, or its answer has another form."""
    plan = "printf ' - torch==2.9.1.post1+musa5.2.0\\n + torch==2.9.1\\n' >&2"
    for more in ('[ "$RUST_LOG" ] && exit 1', ":"):
        text = f"[ $1 = --version ] && echo uv 1 && exit\n{more}\n{plan}"
        answer = answering(tmp_path, monkeypatch, text).ask("x\ny")
        assert isinstance(answer, Resolution)
        assert answer.replacements == (
            Replacement("torch", TAGGED, "2.9.1", ("torch==2.9.1",), ""),
        )


def test_a_pip_that_prints_no_plan_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = answering(tmp_path, monkeypatch, "echo 'pip 26.3 from here (python 3.11)'")
    (tmp_path / "uv").unlink()
    answer = one.ask("x")
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith("pip 26.3: no installation report")


def test_what_goes_elsewhere_and_what_is_no_requirement_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[ $1 = --version ] && echo uv 1 && exit\necho "$@" >>asked'
    one = answering(tmp_path, monkeypatch, text)
    monkeypatch.chdir(tmp_path)
    fresh = entry_of("torch", "Pipfile:1", fresh=True)
    build = entry_of("torch", "pyproject.toml:2", scope="build")
    marked = entry_of("odd; spam == 1", "r.txt:1")._replace(
        kind="requirement", name="odd", marker="spam == 1"
    )
    answer = one.ask([fresh, build, marked, Entry("channel", "e.yml:1", "nvidia", name="nvidia")])
    assert isinstance(answer, Resolution)
    assert (tmp_path / "asked").read_text().splitlines()[-1].endswith(" -- odd")
    many = [entry_of("x", "r.txt:1")] * (MOST_LINES + 1)
    assert one.ask(many) == Unknown("2001 requirements are too many to ask a resolver about")


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    main, terminal = os.openpty()
    with open(terminal, "w", encoding="utf-8") as screen, open(tmp_path / "log", "w") as log:
        for stream in (screen, log):
            tell = progress(stream)
            tell("uv 0.13.9: 3 requirements, 119 s left")
            tell("")
        expected = b"\r\x1b[Kuv 0.13.9: 3 requirements, 119 s left\r\x1b[K"
        shown = b""
        while len(shown) < len(expected):  # a terminal hands over what it has
            shown += os.read(main, 1000)
        assert shown == expected
    os.close(main)
    assert not (tmp_path / "log").read_text()


# ---- What the resolvers print --------------------------------------------------------------------

STACK = assumed("musa")


@pytest.mark.parametrize(
    ("text", "excludes"),
    [
        ("*", False),
        (">=2.0", False),
        (">=2.7.1, <2.7.1+", True),
        (">=2.9.1.post1, <2.9.1.post1+", False),
        ("<2 | >=2.9.1", False),
        ("<2 | >=2.10", True),
        ("==nonsense!", False),
        ("{odd}", False),
    ],
)
def test_ranges_of_uv(text: str, *, excludes: bool) -> None:
    line = f"DEBUG Adding transitive dependency for x[y]==1.0: torch[z]{text}\n"
    assert uv_plan_of(f"{line} + x==1.0\n", STACK).edges == (Edge("x", "torch", excludes),)


def test_what_uv_tried_and_gave_up_is_no_edge() -> None:
    text = (
        "DEBUG Adding transitive dependency for x==2.0: torch<2\n"
        "DEBUG Adding transitive dependency for x==1.0: torch*\n"
        "DEBUG Adding transitive dependency for kept==3: torch*\n"
        "DEBUG Adding direct dependency: x*\n"
        " + x==1.0\n ~ y==1\n - z==2 (from file:///z.whl)\n"
    )
    plan = uv_plan_of(text, STACK)
    assert plan.edges == (Edge("x", "torch", False), Edge("kept", "torch", False))
    assert plan.changes == {"x": ("", "1.0"), "y": ("1", "1"), "z": ("2", "")}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"install": [{}]}', '{"install": [1]}', "1"])
def test_what_is_no_report_of_pip(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever
        pip_plan_of(text, STACK)


def test_a_report_of_pip_may_hold_odd_requirements() -> None:
    text = (
        '{"install": [{"metadata": {"name": "X.y", "version": "1", "requires_dist":'
        ' ["not valid!", "torch<2; sys_platform == \'win32\'", "Torch_Vision==1"]}}]}'
    )
    assert pip_plan_of(text, STACK) == Plan(
        {"x-y": ("", "1")}, (Edge("x-y", "torch-vision", False),)
    )


def test_a_chain_goes_round_no_circle_and_past_nobody_who_is_not_to_blame() -> None:
    plan = Plan(
        {"torch": (TAGGED, ""), "numpy": ("1", "2"), "mate": ("1+musa5", "2")},
        (
            *(Edge("a", "b", False), Edge("b", "a", False), Edge("b", "c", False)),
            *(Edge("a", "torch", False), Edge("c", "torch", True), Edge("x", "mate", False)),
        ),
    )
    entries = [entry_of(name, f"r.txt:{i}") for i, name in enumerate(("a", "x", "torch>=2"), 1)]
    assert replacements(plan, entries, STACK) == (
        Replacement("torch", TAGGED, "", ("a", "b", "c", "torch"), "r.txt:1"),
        Replacement("mate", "1+musa5", "2", ("x", "mate==2"), "r.txt:2"),
    )
    odd = STACK._replace(versions={**STACK.versions, "torch": "not a version"})
    assert replacements(plan, entries[:1], odd)[0].installed == "not a version"


# ---- The checks ----------------------------------------------------------------------------------


def said(resolution: object) -> list[str]:
    facts = {"resolution": resolution}
    result = judge(torch_replaced_by_resolver, facts)
    return [f"{one.where}: {one.message}. {one.fix and one.fix.text}" for one in result.findings]


def test_one_finding_for_each_line_that_leads_there() -> None:
    through = ("vllm-musa", "vllm")
    resolution = Resolution(
        "uv 0.13.9",
        3,
        (
            Replacement("triton", "3.2.0", "3.5.1", (*through, "torch", "triton==3.5.1"), "r:1"),
            Replacement("torch", TAGGED, "2.9.1", (*through, "torch==2.9.1"), "r:1"),
            Replacement("torchaudio", "2.9.1", "", (*through, "torchaudio"), "r:1"),
            Replacement("torch", TAGGED, "2.9.1", ("torch==2.9.1",), "r:2"),
            Replacement("mate", "1+musa", "", ("x", "mate"), "r:3"),
        ),
        (),
    )
    assert said(resolution) == [
        (
            "r:1: vllm-musa -> vllm -> torch==2.9.1 would replace the vendor's torch"
            f" {TAGGED}, and with it torchaudio 2.9.1, triton 3.2.0 by 3.5.1 (uv 0.13.9). Install"
            " vllm-musa with --no-deps and then what it needs besides torch, or take a version of it"
            " that does with the installed torch"
        ),
        (
            f"r:2: torch==2.9.1 would replace the vendor's torch {TAGGED} (uv 0.13.9)."
            " Leave the line out: torch is the vendor's to install"
        ),
        (
            "r:3: x -> mate would remove the vendor's mate 1+musa (uv 0.13.9). Install x with --no-deps"
            " and then what it needs besides mate, or take a version of it that does with the"
            " installed mate"
        ),
    ]
    new = Replacement("torch", "", "2.15.0", ("timm", "torch==2.15.0"), "r:1")
    (message,) = said(Resolution("pip 26.3", 1, (new,), ()))
    assert message.startswith(
        "r:1: timm -> torch==2.15.0 would come, which is not the vendor's build (pip 26.3). "
    )


def test_without_an_answer_the_static_verdict_stands() -> None:
    for state in (Unknown("uv: no index answers"), Absent("not asked")):
        result = judge(torch_replaced_by_resolver, {"resolution": state})
        assert (result.status, result.reason) == ("skipped", state.reason)
    result = judge(resolution_incomplete, {"resolution": Unknown("uv: no index answers")})
    assert (result.status, result.reason) == ("unknown", "uv: no index answers")
    assert result.check.severity == "warning"
    assert judge(resolution_incomplete, {"resolution": Absent("not asked")}).status == "skipped"


def test_what_was_not_judged_is_said() -> None:
    line = Unresolved("r.txt:4", "jieba", SOURCE_ONLY)
    resolution = Resolution("uv 0.13.9", 1, (), (line,), ("2 parts were judged",))
    assert judge(resolution_incomplete, {"resolution": resolution}).findings == (
        Finding("uv 0.13.9: 2 parts were judged"),
        Finding("jieba: not judged: source only, would run build code", "r.txt:4"),
    )
    assert judge(torch_replaced_by_resolver, {"resolution": resolution}).status == "passed"
