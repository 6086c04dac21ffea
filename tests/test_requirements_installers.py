"""Installers' command lines: pip's against pip's own parser, the others by their documentation."""

import shlex
from optparse import Option, OptionParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pip._internal.commands import create_command
from pip._internal.exceptions import CommandError

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import installers
from musadoctor.requirements.installers import Install, entries, parse, variable_entries


def parsed(command: str) -> Install:
    install = parse(shlex.split(command))
    assert install is not None
    return install


def asked(command: str, *, fresh: bool = False) -> list[Entry]:
    return list(entries(parsed(command), "s.sh:3", command, fresh=fresh))


def kinds(command: str) -> list[tuple[str, str]]:
    return [(entry.kind, entry.name or entry.url or entry.specifier) for entry in asked(command)]


INSTALLS = {
    "pip install torch": {"tool": "pip", "action": "install", "requirements": ("torch",)},
    "pip3 -q install -r a.txt -r b.txt": {"files": ("a.txt", "b.txt")},
    "pip install -Ur a.txt": {"flags": ("--upgrade",), "files": ("a.txt",)},
    "pip install -qU torch": {"flags": ("--upgrade",), "requirements": ("torch",)},
    "pip install -ra.txt": {"files": ("a.txt",)},
    "pip install -r=a.txt": {"files": ("a.txt",)},
    "pip install --requirement=a.txt": {"files": ("a.txt",)},
    "pip install --constr c.txt torch": {"constraints": ("c.txt",), "requirements": ("torch",)},
    "pip install --upg torch": {"unknown": ("--upg",)},
    "pip install --upgrade-s eager -U torch": {
        "flags": ("--upgrade-strategy=eager", "--upgrade"),
        "requirements": ("torch",),
    },
    "pip install -I --force-reinstall --no-deps --pre --isolated x": {
        "flags": ("--ignore-installed", "--force-reinstall", "--no-deps", "--pre", "--isolated")
    },
    "pip install -U -U x": {"flags": ("--upgrade",)},
    "pip install --user --no-user x": {"flags": ()},
    "pip install -i https://u:secret@a.invalid/simple -f https://b.invalid torch": {
        "indexes": (
            ("--index-url", "https://a.invalid/simple"),
            ("--find-links", "https://b.invalid"),
        ),
    },
    "pip install --pypi-url https://a.invalid x": {
        "indexes": (("--index-url", "https://a.invalid"),)
    },
    "pip install -t d torch": {"target": "--target=d"},
    "pip install --root /r --prefix=/p x": {"target": "--prefix=/p"},
    "pip install --user x": {"target": "--user", "flags": ("--user",)},
    "pip install -e . -e ./a": {"editables": (".", "./a")},
    "pip install -C a=b --config-settings=c=d --global-option=--cuda_ext .": {
        "settings": ("a=b", "c=d", "--cuda_ext")
    },
    "pip install -- -x torch": {"requirements": ("-x", "torch")},
    "pip install - x": {"requirements": ("-", "x")},
    "pip install --no-such torch -Zq": {
        "unknown": ("--no-such", "-Zq"),
        "requirements": ("torch",),
    },
    "pip install torch -c": {"constraints": (), "requirements": ("torch",)},
    "pip --python /v/bin/python install x": {"python": "/v/bin/python"},
    "pip install --dry-run x": {"harmless": True, "flags": ("--dry-run",)},
    "pip install --help": {"harmless": True},
    "pip download torch": {"harmless": True, "action": "download", "requirements": ()},
    "pip list": {"harmless": True, "action": "list"},
    "pip": {"harmless": True, "action": ""},
    "pip --version": {"harmless": True},
    "pip uninstall -y torch": {"action": "uninstall", "requirements": ("torch",)},
    "python3.10 -m pip install x": {"python": "python3.10", "program": ("python3.10", "-m", "pip")},
    "/opt/v/bin/python -Im pip install x": {"python": "/opt/v/bin/python"},
    "python -mpip install x": {"python": "python", "requirements": ("x",)},
    "python -W ignore -X utf8 --check-hash-based-pycs never -m pip install x": None,
    "python -W ignore -X utf8 -m pip install x": {"requirements": ("x",)},
    "python -m uv pip install x": {"tool": "uv", "action": "pip install"},
    "python -m": None,
    "python -m http.server": None,
    "python -cimport pip": None,
    "python --version": None,
    "python train.py": None,
    "py -3.10 -m pip install x": {"python": "python3.10"},
    "py -m pip install x": {"python": "python"},
    "/opt/v/bin/pip install x": {"python": "/opt/v/bin/python3"},
    "/opt/v/bin/pip3.11 install x": {"python": "/opt/v/bin/python3.11"},
    "C:/v/Scripts/pip.exe install x": {"tool": "pip"},
    "pip3.10 install x": {"tool": "pip", "python": ""},
    "sudo -E -u me env -u A B=1 C=2 pip install x": {
        "tool": "pip",
        "variables": (("B", "1"), ("C", "2")),
        "requirements": ("x",),
    },
    "timeout -k 5 600 nice -n 5 pip install x": {"requirements": ("x",)},
    "sudo -- pip install x": {"requirements": ("x",)},
    "command -v pip": None,
    "command pip install x": {"requirements": ("x",)},
    "sudo": None,
    "A=1": None,
    "": None,
    "'$PIP' install x": {"tool": "pip"},
    "'${PIP3:-pip3}' install x": {"tool": "pip"},
    "'$PYTHON_BIN' -m pip install x": {"tool": "pip", "python": "$PYTHON_BIN"},
    "'${VENV}/bin/pip' install x": {"tool": "pip", "python": "${VENV}/bin/python3"},
    "'$MY_UV' pip install x": {"tool": "uv"},
    "'$TOOL' install x": None,
    "pipeline install x": None,
    "uv pip install -p 3.11 --system torch": {
        "tool": "uv",
        "action": "pip install",
        "program": ("uv",),
        "python": "3.11",
        "flags": ("--system",),
    },
    "uv --quiet pip --offline install -P torch --reinstall-package=x y": {
        "flags": ("--upgrade-package=torch", "--reinstall-package=x"),
        "requirements": ("y",),
    },
    "uv pip install --force-reinstall -U --no-upgrade x": {"flags": ("--reinstall",)},
    "uv pip install --upgr x": {"unknown": ("--upgr",)},
    "uv pip install --overrides o.txt -c c.txt x": {"constraints": ("o.txt", "c.txt")},
    "uv pip sync requirements.txt": {"files": ("requirements.txt",), "requirements": ()},
    "uv pip sync --check requirements.txt": {"harmless": True},
    "uv pip compile r.in": {"harmless": True, "action": "pip compile"},
    "uv pip": {"harmless": True, "action": "pip"},
    "uv pip install --index torch=https://a.invalid/x --default-index https://b.invalid?c=d y": {
        "indexes": (("--index", "https://a.invalid/x"), ("--default-index", "https://b.invalid")),
    },
    "uv --project p sync --active --inexact --no-install-package torch": {
        "action": "sync",
        "project": "p",
        "flags": ("--active", "--inexact", "--no-install-package=torch"),
    },
    "uv sync --dry-run": {"harmless": True},
    "uv add --frozen torch": {"harmless": True},
    "uv add -r a.txt torch": {"files": ("a.txt",), "requirements": ("torch",)},
    "uv add --editable ./x": {"editables": ("./x",), "requirements": ()},
    "uv remove torch": {"action": "remove", "requirements": ("torch",)},
    "uv lock": {"harmless": True},
    "uv run --with torch --with-requirements a.txt python -c pass": {
        "action": "run",
        "requirements": ("torch",),
        "files": ("a.txt",),
        "command": ("python", "-c", "pass"),
    },
    "uv run -- pip install x": {"command": ("pip", "install", "x"), "requirements": ()},
    "uvx --with torch vllm serve": {
        "action": "tool run",
        "program": ("uvx",),
        "requirements": ("vllm", "torch"),
    },
    "uv tool run --from vllm==0.8 serve": {"requirements": ("vllm==0.8",)},
    "uv tool install -w torch vllm": {"requirements": ("vllm", "torch")},
    "uv tool upgrade vllm": {"flags": ("--upgrade",)},
    "uv tool list": {"harmless": True},
    "poetry install --sync --with dev": {
        "tool": "poetry",
        "action": "install",
        "flags": ("--sync",),
        "requirements": (),
    },
    "poetry -C p add torch@^2.4 -G dev": {"project": "p", "requirements": ("torch@^2.4",)},
    "poetry add --lock torch": {"harmless": True},
    "poetry add -e ./x": {"editables": ("./x",)},
    "poetry update torch": {"flags": ("--upgrade",), "requirements": ("torch",)},
    "poetry self add x": {"harmless": True},
    "poetry run python x.py": {"harmless": True, "command": ("python", "x.py")},
    "poetry -q run sudo pip install -U torch": {
        "tool": "pip",
        "program": ("poetry", "run", "sudo", "pip"),
        "flags": ("--upgrade",),
    },
    "pipenv install --system -r a.txt -i https://a.invalid torch": {
        "tool": "pipenv",
        "flags": ("--system",),
        "files": ("a.txt",),
        "indexes": (("--index", "https://a.invalid"),),
        "requirements": ("torch",),
    },
    "pipenv install --extra-pip-args='--index-url=https://a.invalid -U' torch": {
        "indexes": (("--index-url", "https://a.invalid"),),
        "flags": ("--upgrade",),
    },
    "pipenv update --lock-only": {"harmless": True},
    "pdm add -dG test torch": {"tool": "pdm", "requirements": ("torch",)},
    "pdm sync --clean --no-isolation": {"flags": ("--clean", "--no-build-isolation")},
    "pdm install --check": {"harmless": True},
    "conda install -y -n base -c pytorch pytorch=2.1": {
        "tool": "conda",
        "target": "--name=base",
        "requirements": ("pytorch=2.1",),
        "indexes": (("--channel", "pytorch"),),
    },
    "conda create -p /e --file r.txt": {"target": "--prefix=/e", "files": ("r.txt",)},
    "mamba env update -n base --file e.yml --prune": {
        "tool": "mamba",
        "action": "env update",
        "files": ("e.yml",),
        "flags": ("--prune",),
    },
    "conda env list": {"harmless": True},
    "conda upgrade pytorch": {"action": "update", "flags": ("--upgrade",)},
    "micromamba create -r /root -f e.yml": {"files": ("e.yml",)},
    "conda run -n gpu --no-capture-output pip install x": {
        "tool": "pip",
        "target": "--name=gpu",
        "program": ("conda", "run", "-n", "gpu", "--no-capture-output", "pip"),
    },
    "conda run -n gpu pip install -t d x": {"target": "--target=d"},
    "pixi add --pypi torch": {"tool": "pixi", "flags": ("--pypi",), "requirements": ("torch",)},
    "pixi i --frozen": {"action": "install", "flags": ("--frozen",)},
    "pixi add --no-install x": {"harmless": True},
    "pixi run train": {"action": "run", "command": ("train",), "harmless": False},
    "pixi exec -s pytorch python": {"requirements": ("pytorch",)},
    "pixi global install vllm": {"action": "global install", "requirements": ("vllm",)},
    "rye add torch": {"tool": "rye", "requirements": ("torch",)},
    "hatch run test": {"tool": "hatch", "harmless": True},
    "pipx install --pip-args='-i https://a.invalid' vllm": {
        "requirements": ("vllm",),
        "indexes": (("--index-url", "https://a.invalid"),),
    },
    " ".join(["uv run"] * 20) + " pip install x": {"tool": "uv"},
    " ".join(["poetry run"] * 20) + " pip install x": {"harmless": True},
}


@pytest.mark.parametrize(("command", "fields"), INSTALLS.items())
def test_a_command_line_is_understood(command: str, fields: dict[str, object] | None) -> None:
    install = parse(shlex.split(command))
    if fields is None:
        assert install is None
        return
    assert install is not None
    assert {name: getattr(install, name) for name in fields} == fields
    assert install.harmless == fields.get("harmless", False)
    assert install.unknown == fields.get("unknown", ())


ENTRIES = {
    "pip install torch==2.4 ./x -e y -r a.txt -c c.txt": [
        ("requirement", "torch"),
        ("source", "./x"),
        ("source", "y"),
        ("include", "a.txt"),
        ("include", "c.txt"),
    ],
    "CUDA_HOME=/usr/local/cuda MAX_JOBS=4 pip install x": [
        ("variable", "CUDA_HOME"),
        ("requirement", "x"),
    ],
    "pip install torch --extra-index-url https://u:secret@a.invalid/whl/cu121": [
        ("requirement", "torch"),
        ("index", "https://a.invalid/whl/cu121"),
    ],
    "pip install -C cmake.args=-DGGML_CUDA=on x": [
        ("requirement", "x"),
        ("option", "cmake.args=-DGGML_CUDA=on"),
    ],
    "uv pip install --torch-backend=cu128 torch": [
        ("requirement", "torch"),
        ("index", "https://download.pytorch.org/whl/cu128"),
    ],
    "UV_TORCH_BACKEND=cu128 uv pip install torch": [
        ("index", "https://download.pytorch.org/whl/cu128"),
        ("requirement", "torch"),
    ],
    "conda install -c nvidia/label/cuda-12.1.0 pytorch::pytorch=2.1 -n a --file r.txt": [
        ("conda", "pytorch"),
        ("include", "r.txt"),
        ("channel", "nvidia/label/cuda-12.1.0"),
    ],
    "uv run --with torch pip install x": [("requirement", "torch"), ("requirement", "x")],
    "pixi add pytorch=2.1": [("conda", "pytorch")],
    "pixi add --pypi torch": [("requirement", "torch")],
    "poetry add 'torch[opt]@^2.4' ruff@latest numpy@1.26 git+https://a.invalid/b.git": [
        ("requirement", "torch"),
        ("requirement", "ruff"),
        ("requirement", "numpy"),
        ("source", "b"),
    ],
    "pip install --dry-run torch": [],
    "pip uninstall torch": [],
    "uv remove torch": [],
}


@pytest.mark.parametrize(("command", "expected"), ENTRIES.items())
def test_what_a_command_asks_for(command: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(command) == expected
    assert {entry.where for entry in asked(command)} <= {"s.sh:3"}
    assert not any("secret" in str(entry) for entry in asked(command))


def test_a_channels_token_is_not_shown() -> None:
    entries = asked("conda install -c https://u:p@a.invalid/t/secret/c x")
    assert [entry.name for entry in entries] == ["x", "https://a.invalid/c"]
    assert not any("secret" in str(entry) for entry in entries)


def test_an_entry_has_the_flags_of_its_command() -> None:
    assert {
        entry.flags for entry in asked("pip install -U --no-deps torch -i https://a.invalid")
    } == {("--upgrade", "--no-deps")}
    (entry,) = asked("uv pip install -U torch")  # uv upgrades what is depended on, too
    assert entry.flags == ("--upgrade", "--upgrade-strategy=eager")
    (entry,) = asked("pip install --prefix=/p torch")
    assert entry.flags == ("--prefix",)
    (entry,) = asked("conda install -n base pytorch --no-deps")
    assert entry.flags == ("--no-deps",)


@pytest.mark.parametrize(
    ("command", "fresh"),
    [
        ("pip install x", False),
        ("pip install --user x", False),
        ("pip install --prefix=/p x", False),
        ("pip install --target=/p x", True),
        ("uv pip install x", False),
        ("uv pip install --prefix=/p x", True),
        ("uv add x", True),
        ("uv add --active x", False),
        ("uv run --with x y", True),
        ("uv run --no-project --with x y", False),
        ("uvx x", True),
        ("poetry add x", True),
        ("pipenv install x", True),
        ("pipenv install --system x", False),
        ("conda install x", True),
        ("pixi add --pypi x", True),
    ],
)
def test_an_environment_of_its_own_is_fresh(command: str, fresh: object) -> None:
    (entry,) = asked(command)
    assert entry.fresh == fresh
    assert all(entry.fresh for entry in asked(command, fresh=True))


@pytest.mark.parametrize(
    ("command", "text", "reason"),
    [
        ("pip install torch==$V numpy", "torch==$V", "placeholder"),
        ("pip install '{{ torch }}'", "{{ torch }}", "placeholder"),
        ("pip install 'torch =! 2'", "torch =! 2", "Expected"),
        ("conda install '$PYTORCH'", "$PYTORCH", "placeholder"),
        ("conda install '==2'", "==2", "not a conda"),
        ("poetry add 'torch@^1||^2'", "torch@^1||^2", "Expected"),
    ],
)
def test_what_cannot_be_read_shows_itself_alone(command: str, text: str, reason: str) -> None:
    entry = asked(command)[0]
    assert (entry.kind, entry.text) == ("unreadable", text)
    assert entry.reason.startswith(reason)


def test_poetrys_versions_are_translated() -> None:
    command = "poetry add torch@^2.4 a@~1.2 b@latest c@1.0 d@>=1,<2 'e>=2' f@"
    assert [entry.specifier for entry in asked(command)] == [
        ">=2.4,<3",
        ">=1.2,<1.3",
        "",
        "==1.0",
        ">=1,<2",
        ">=2",
        "",
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TORCH_CUDA_ARCH_LIST", "8.0", [("variable", "8.0", "")]),
        ("CUDA_HOME", "", [("variable", "", "")]),
        ("CUDA_HOME", "/usr/local/musa", []),
        ("NVCC_APPEND_FLAGS", "--threads 4", [("variable", "--threads 4", "")]),
        ("CMAKE_ARGS", "-DGGML_CUDA=on", [("variable", "-DGGML_CUDA=on", "")]),
        ("MAX_JOBS", "4", []),
        (
            "PIP_EXTRA_INDEX_URL",
            "https://u:p@a.invalid/cu121 https://b.invalid",
            [("index", "", "https://a.invalid/cu121"), ("index", "", "https://b.invalid")],
        ),
        ("UV_INDEX", "cuda=https://a.invalid", [("index", "", "https://a.invalid")]),
        ("PIP_FIND_LINKS", "a=b/c?x", [("index", "", "b/c?x")]),
    ],
)
def test_a_variable_may_change_an_install(
    name: str, value: str, expected: list[tuple[str, str, str]]
) -> None:
    found = list(variable_entries(name, value, "D:1", "ENV ...", fresh=True, scope="task"))
    assert [(entry.kind, entry.specifier, entry.url) for entry in found] == expected
    assert all(entry.fresh and entry.scope == "task" for entry in found)


def options_of(group: object) -> list[Option]:
    found = getattr(group, "option_list", None)
    assert isinstance(found, list)
    return found


def pips(command: str) -> OptionParser:
    return create_command(command).parser


@pytest.mark.parametrize("command", ["install", "uninstall", "download"])
def test_every_option_of_pip_is_known(command: str) -> None:
    ours = installers._options(
        installers._PIP if command != "download" else installers._PIP_GENERAL, True
    )
    parser = pips(command)
    *_, last = parser.option_groups
    general = {name for option in options_of(last) for name in option._long_opts}
    for group in (parser, *parser.option_groups):
        for option in options_of(group):
            if command == "download" and not general & set(option._long_opts):
                continue
            known = ours.values if option.takes_value() else ours.flags
            for name in (*option._short_opts, *option._long_opts):
                assert name in known, name


WORDS = st.one_of(
    st.sampled_from([
        "torch", "./x", "-r", "-ra.txt", "-U", "-qU", "-Ur", "b.txt", "--upgrade", "--no-deps",
        "-e", "--index-url", "--index-url=https://a.invalid", "-i", "--user", "--pre", "-I",
        "--target", "-td", "--upgrade-strategy", "eager", "--constraint", "--force-reinst",
        "--extra-index", "-C", "a=b", "--", "-f", "-vv", "--no-binary", ":all:", "--root=/r",
    ]),
)  # fmt: skip


@given(st.lists(WORDS, max_size=8))
@example(["-Ur", "b.txt", "torch", "--upgrade-strat", "eager"])
def test_pips_own_parser_reads_the_same(words: list[str]) -> None:
    parser = pips("install")
    try:
        # Without what pip's configuration on this machine says.
        options, rest = parser.parse_args(list(words), OptionParser.get_default_values(parser))
    except (SystemExit, CommandError):
        return
    install = parse(["pip", "install", *words])
    assert install is not None
    assert list(install.requirements) == rest
    assert list(install.files) == [file for file in options.requirements if file]
    assert list(install.editables) == [path for path in options.editables if path]
    assert list(install.constraints) == [file for file in options.constraints if file]
    assert ("--upgrade" in install.flags) == bool(options.upgrade)
    assert ("--force-reinstall" in install.flags) == bool(options.force_reinstall)
    assert ("--no-deps" in install.flags) == bool(options.ignore_dependencies)


@given(st.lists(st.one_of(WORDS, st.text(max_size=12), st.sampled_from(["uv", "run", "pip"]))))
def test_no_command_line_is_too_odd(words: list[str]) -> None:
    for tool in ("pip", "uv", "conda", "poetry", "pixi", "sudo", "python"):
        install = parse([tool, *words])
        if install:
            for entry in entries(install, "x:1", " ".join(words)):
                assert entry.text.isprintable()
