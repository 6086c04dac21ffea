import importlib
import sys

import pytest
from entry_lines import line, lines
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements import poetry, pyproject, toml_text
from musadoctor.requirements.broken import BrokenError, broken

CASES = {
    "the standard tables": (
        """\
[build-system]
requires = ["setuptools", "torch>=2.4"]
[project]
name = "My_Project"
dependencies = [
    # "commented==1"
    "torch==2.4.0; sys_platform == 'linux'", "numpy",
    'cupy-cuda12x @ https://user:secret@example.invalid/cupy_cuda12x-13.0-cp310-cp310-linux_x86_64.whl',
]
optional-dependencies.gpu = ["my-project[base]", "numpy"]
[dependency-groups]
cuda = ["nvidia-cudnn-cu12"]
dev = [
    "pytest", {include-group = "CUDA"},
    {include-group = "gone"},
    7,
]
""",
        [
            "2 requirement setuptools <build>",
            "2 requirement torch >=2.4 <build>",
            "7 requirement torch ==2.4.0 ;sys_platform == 'linux'",
            "7 requirement numpy",
            (
                "8 requirement cupy-cuda12x ==13.0 "
                "@https://example.invalid/cupy_cuda12x-13.0-cp310-cp310-linux_x86_64.whl"
            ),
            "10 requirement numpy <extra:gpu>",
            "12 requirement nvidia-cudnn-cu12 <group:cuda>",
            "14 requirement pytest <group:dev>",
            "15 unreadable <group:dev> !neither a requirement nor a dependency group of this file",
            "16 unreadable <group:dev> !neither a requirement nor a dependency group of this file",
        ],
    ),
    "what is no list": (
        '[project]\ndependencies = "torch==2.4"\n[project.optional-dependencies]\ngpu = 3\n',
        ["2 unreadable !dependencies is no list", "4 unreadable <extra:gpu> !gpu is no list"],
    ),
    "tables of other shapes than meant": (
        (
            'project = 1\nbuild-system = []\ndependency-groups = "x"\n[tool]\nuv = []\npdm = 1\n'
            "poetry = 'x'\nhatch = { envs = 3 }\n"
        ),
        [],
    ),
    "a project's own name with a version": (
        '[project]\nname = "torch"\ndependencies = ["torch[x]==2.4", "torch[x]"]',
        ["3 requirement torch[x] ==2.4"],
    ),
    "files that setuptools and hatch include": (
        """\
[tool.setuptools.dynamic]
dependencies = { file = ["requirements.txt", "more.txt"] }
[tool.setuptools.dynamic.optional-dependencies]
gpu = { file = "gpu.txt" }
[tool.hatch.metadata.hooks.requirements_txt]
files = ["hatch.txt"]
[tool.hatch.metadata.hooks.requirements_txt.optional-dependencies]
dev = ["dev.txt"]
""",
        [
            "2 include @requirements.txt file:",
            "2 include @more.txt file:",
            "4 include @gpu.txt <extra:gpu> file:",
            "6 include @hatch.txt file:",
            "8 include @dev.txt <extra:dev> file:",
        ],
    ),
    "poetry": (
        """\
[tool.poetry.dependencies]
python = "^3.8"
torch = { version = "^2.1", source = "pytorch", optional = true, extras = ["opt_einsum"] }
numpy = "*"
torchvision = [
    { version = "0.19.0+cu121", platform = "linux" },
    { version = "~0.19", markers = "os_name == 'nt'", python = ">=3.9,<3.12" },
    { url = "https://example.invalid/torchvision-0.19.0%2Bcu121-cp310-cp310-linux_x86_64.whl" },
]
apex = { git = "git@example.invalid:nvidia/apex.git", branch = "main" }
mine = { path = "libs", develop = true }
wheel = { path = "../dist/triton-3.0.0-cp310-cp310-linux_x86_64.whl" }
odd = true
bare = { url = "foo" }
either = "^1 || ^3"
PyPI-Thing = { version = "1.0", source = "PyPI" }
"two words" = "1.0"
[tool.poetry.dev-dependencies]
pytest = "7.*"
[tool.poetry.group.gpu.dependencies]
cupy = { version = ">=12 <14", source = "unnamed-cu121" }
[tool.poetry.extras]
ml = ["torch"]
[[tool.poetry.source]]
name = "pytorch"
url = "https://u:p@download.example.invalid/whl/cu121"
[[tool.poetry.source]]
name = "PyPI"
""",
        [
            "26 index @https://download.example.invalid/whl/cu121 tool.poetry.source",
            "3 requirement torch[opt-einsum] >=2.1,<3 <extra:ml>",
            "3 index torch @https://download.example.invalid/whl/cu121 <extra:ml> tool.poetry.source",
            "4 requirement numpy",
            "6 requirement torchvision ==0.19.0+cu121 ;sys_platform == 'linux'",
            (
                "7 requirement torchvision >=0.19,<0.20 ;(os_name == 'nt') and "
                '(python_version >= "3.9" and python_version < "3.12")'
            ),
            (
                "8 requirement torchvision ==0.19.0+cu121 "
                "@https://example.invalid/torchvision-0.19.0+cu121-cp310-cp310-linux_x86_64.whl"
            ),
            "10 source apex @git+git@example.invalid:nvidia/apex.git@main",
            "11 source mine @./libs",
            "12 requirement triton ==3.0.0 @../dist/triton-3.0.0-cp310-cp310-linux_x86_64.whl",
            "13 unreadable !no dependency as poetry has it: odd",
            "14 source bare @foo",
            "15 unreadable !the version '^1 || ^3' has no equal in PEP 440",
            "16 requirement pypi-thing ==1.0",
            "16 index pypi-thing @PyPI tool.poetry.source",
            "17 unreadable !no version of a project: two words==1.0",
            "19 requirement pytest ==7.* <group:dev>",
            "21 requirement cupy >=12,<14 <group:gpu>",
            "21 index cupy @unnamed-cu121 <group:gpu> tool.poetry.source",
        ],
    ),
    "uv": (
        """\
[project]
dependencies = ["torch"]
[tool.uv]
index-url = "https://u:p@example.invalid/simple"
extra-index-url = ["https://example.invalid/cpu",
    "https://example.invalid/cu124"]
find-links = ["./wheels"]
constraint-dependencies = ["torch<2.5"]
override-dependencies = ["torch==2.4.0+cu124"]
build-constraint-dependencies = ["setuptools<70"]
dev-dependencies = ["pytest"]
torch-backend = "cu128"
[tool.uv.pip]
extra-index-url = "https://example.invalid/pip"
[tool.uv.extra-build-dependencies]
flash-attn = ["torch"]
[tool.uv.sources]
torch = [
    { index = "cu", marker = "sys_platform == 'linux'" },
    { index = "cu", marker = "extra == 'cu13'" },
    { index = "elsewhere", extra = "cpu" },
    { index = "cu", group = "dev" },
]
flash_attn = { git = "https://u:p@example.invalid/flash", rev = "v2" }
vllm = { url = "https://example.invalid/vllm-0.5+cu118-cp38-abi3-linux_x86_64.whl" }
local = { path = "../local", editable = true }
member = { workspace = true }
nothing = { workspace = false }
none = 1
[[tool.uv.index]]
name = "cu"
explicit = true
url = "https://example.invalid/whl/cu130"
""",
        [
            "2 requirement torch",
            "8 requirement torch <2.5 <constraint>",
            "9 requirement torch ==2.4.0+cu124 <override>",
            "10 requirement setuptools <70 <build>",
            "11 requirement pytest <group:dev>",
            "16 requirement torch <build:flash-attn>",
            "33 index @https://example.invalid/whl/cu130 tool.uv.index",
            "4 index @https://example.invalid/simple tool.uv.index-url",
            "5 index @https://example.invalid/cpu tool.uv.extra-index-url",
            "6 index @https://example.invalid/cu124 tool.uv.extra-index-url",
            "7 index @./wheels tool.uv.find-links",
            "12 index @https://download.pytorch.org/whl/cu128 torch-backend",
            "14 index @https://example.invalid/pip tool.uv.pip.extra-index-url",
            "19 index torch @https://example.invalid/whl/cu130 ;sys_platform == 'linux' tool.uv.sources",
            "20 index torch @https://example.invalid/whl/cu130 <extra:cu13> tool.uv.sources",
            "21 index torch @elsewhere <extra:cpu> tool.uv.sources",
            "22 index torch @https://example.invalid/whl/cu130 <group:dev> tool.uv.sources",
            "24 source flash-attn @git+https://example.invalid/flash@v2",
            (
                "25 requirement vllm ==0.5+cu118 "
                "@https://example.invalid/vllm-0.5+cu118-cp38-abi3-linux_x86_64.whl"
            ),
            "26 source local @../local",
            "27 source member workspace",
            "28 unreadable !no source of nothing that uv has",
            "29 unreadable !no source of none that uv has",
        ],
    ),
    "pdm": (
        """\
[tool.pdm.dev-dependencies]
gpu = ["torch==2.4.0", "-e file:///${PROJECT_ROOT}/sub#egg=sub"]
[[tool.pdm.source]]
name = "cu"
url = "https://example.invalid/whl/cu121"
[tool.pdm.resolution.overrides]
torch = "2.4.0"
triton = "https://example.invalid/triton-3.0.0-cp310-cp310-linux_x86_64.whl"
numpy = 3
[tool.pdm.scripts]
one = "pip install torch==2.1.0"
two = ["pip", "install", "torch==2.2.0"]
three = { shell = "echo x && pip install torch==2.3.0" }
four = { composite = ["lint", "pip install torch==2.4.1"] }
five = { call = "a:b" }
""",
        [
            "2 requirement torch ==2.4.0 <group:gpu>",
            "2 source sub @file:///${PROJECT_ROOT}/sub#egg=sub <group:gpu>",
            "5 index @https://example.invalid/whl/cu121 tool.pdm.source",
            "7 requirement torch ==2.4.0 <override>",
            (
                "8 requirement triton ==3.0.0 "
                "@https://example.invalid/triton-3.0.0-cp310-cp310-linux_x86_64.whl <override>"
            ),
            "9 unreadable <override> !no version of numpy",
            "11 requirement torch ==2.1.0 <task>",
            "12 requirement torch ==2.2.0 <task>",
            "13 requirement torch ==2.3.0 <task>",
            "14 requirement torch ==2.4.1 <task>",
        ],
    ),
    "pixi": (
        """\
[tool.pixi.workspace]
channels = ["nvidia"]
[tool.pixi.pypi-dependencies]
torch = "==2.4.0+cu121"
""",
        ["2 channel nvidia", "4 requirement torch ==2.4.0+cu121"],
    ),
    "hatch": (
        """\
[tool.hatch.envs.gpu]
dependencies = ["torch==2.4.0"]
extra-dependencies = ["cupy"]
[tool.hatch.envs.gpu.scripts]
setup = [
    "echo {args}",
    "pip install torch==2.5.0+cu118",
]
test = "pytest"
[tool.hatch.envs.gpu.env-vars]
PIP_EXTRA_INDEX_URL = "https://example.invalid/whl/cu118"
""",
        [
            "2 requirement torch ==2.4.0 <env:gpu>",
            "3 requirement cupy <env:gpu>",
            "7 requirement torch ==2.5.0+cu118 <task>",
            "11 index @https://example.invalid/whl/cu118 <task> PIP_EXTRA_INDEX_URL",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_project_is_read(case: str) -> None:
    text, expected = CASES[case]
    assert lines(pyproject.read("pyproject.toml", text)) == expected
    windows = text.replace("\n", "\r\n")
    assert lines(pyproject.read("pyproject.toml", windows)) == expected


def test_no_entry_shows_credentials() -> None:
    for text, _ in CASES.values():
        for entry in pyproject.read("pyproject.toml", text):
            assert "u:p@" not in repr(entry)
            assert "secret" not in repr(entry)


def test_an_entry_shows_the_line_that_it_stands_in() -> None:
    text, _ = CASES["poetry"]
    shown = {line(entry): entry.text for entry in pyproject.read("x", text)}
    assert shown["19 requirement pytest ==7.* <group:dev>"] == 'pytest = "7.*"'


BROKEN = {
    "cut": ('[project]\ndependencies = [\n"torch==2.4.0"', 3, "no valid TOML"),
    "an error": ('[project]\nname = \ndependencies = ["torch"]', 2, "no valid TOML"),
    "deep": ("a = " + "[" * 5000 + "]" * 5000, 1, "nested too deeply"),
    "dots": ("x = 1\n" + "a." * 5000 + "a = 1", 2, "1000 dots"),
    "large": ("#" * toml_text.LARGEST + "\nx = 1", 1, "characters of TOML"),
    "a number": ("a = 1" + "0" * 5000, 1, "no valid TOML"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_one_entry(case: str) -> None:
    text, number, reason = BROKEN[case]
    (entry,) = pyproject.read("p", text)
    assert (entry.kind, entry.where) == ("unreadable", f"p:{number}")
    assert reason in entry.reason


def test_a_broken_file_shows_where_it_may_concern_torch() -> None:
    entry = broken("p", "a\nb\n  x = 'torch==2'\n", BrokenError("cut", 2), first=10)
    assert (entry.where, entry.text) == ("p:11", "b ... x = 'torch==2'")
    assert broken("p", "a\nCUDA\ntorch", BrokenError("cut", 2)).text == "CUDA"
    assert broken("p", "a\nb", BrokenError("cut", 9)).text == "b"


def test_a_thousand_dots_in_many_lines_are_no_harm() -> None:
    text = "[project]\ndependencies = [\n" + '"x==1.0.0",\n' * 600 + "]"
    assert len(list(pyproject.read("p", text))) == 600


def test_lines_that_cannot_be_told_are_said_so() -> None:
    with pytest.raises(BrokenError, match="cannot be told apart"):
        toml_text._places("a = [1")
    with pytest.raises(BrokenError, match="cannot be told apart"):
        toml_text._places("= 1")


STRANGE = '''\
# a comment with "quotes" and [brackets]
"quoted key" = 'its' # no
"esc\\u0061ped".x = """
[not.a.table]
""\\"""" # end
lit = \'\'\'
[[neither]]
''\'\'\'
dates = [1979-05-27 07:32:00, 1.5, true, ] # , ]
'a.b'."c" = { x = [ { y = "z" }, ], q = "]}" }
[ spaced . "table" ] # c
k = 1
[[array]]
[[array.inner]]
v = "1"
[[array.inner]]
v = "2"
[array.sub]
w = "3"
[[array]]
inner = [
  "a", # "b"
  "c",
]
'''


def test_every_value_has_its_line() -> None:
    document = toml_text.load("f", STRANGE)
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    assert document.tables == toml.loads(STRANGE)
    places = {
        ("quoted key",): 2,
        ("escaped", "x"): 3,
        ("lit",): 6,
        ("dates", 2): 9,
        ("a.b", "c", "x", 0, "y"): 10,
        ("a.b", "c", "q"): 10,
        ("spaced", "table"): 11,
        ("spaced", "table", "k"): 12,
        ("array", 0, "inner", 0, "v"): 15,
        ("array", 0, "inner", 1, "v"): 17,
        ("array", 0, "sub", "w"): 19,
        ("array", 1, "inner", 1): 23,
        ("array", 1, "inner", 7): 21,
        ("nothing",): 1,
    }
    assert {keys: document.line(*keys) for keys in places} == places


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
SPECIFIERS = st.sampled_from(["", "==1.0", ">=2,<3", "~=1.4", "==2.1+cu121"])
DEPENDENCIES = st.lists(st.tuples(NAMES, SPECIFIERS), max_size=6)


@given(st.dictionaries(NAMES, DEPENDENCIES, max_size=5), st.data())
def test_what_is_written_is_read_with_its_lines(
    groups: dict[str, list[tuple[str, str]]], data: st.DataObject
) -> None:
    written = ["[dependency-groups]"]
    expected: list[tuple[str, str, str, str]] = []
    for group, dependencies in groups.items():
        written.append(f"{group} = [")
        for name, specifier in dependencies:
            quote = data.draw(st.sampled_from(['"', "'", '"""']))
            item = f"{quote}{name}{specifier}{quote},"
            if data.draw(st.booleans()):
                written.append(item)
            else:
                written[-1] += item
            expected.append((str(len(written)), name, specifier, f"group:{group}"))
            if data.draw(st.booleans()):
                written += [data.draw(st.sampled_from(["", '# "x==1",', "  # ]"])), ""]
        written.append("]")
    read = pyproject.read("p", "\n".join(written))
    found = [(e.where.removeprefix("p:"), e.name, e.specifier, e.scope) for e in read]
    assert found == expected


TREES = st.recursive(
    st.one_of(st.text(max_size=8), st.integers(), st.booleans()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
TABLES = (
    *("project", "project.dependencies", "project.optional-dependencies", "dependency-groups"),
    *("tool.poetry", "tool.poetry.dependencies", "tool.poetry.group.a", "tool.poetry.source"),
    *("tool.uv", "tool.uv.sources", "tool.uv.index", "tool.uv.pip", "tool.pdm", "tool.hatch.envs"),
    *("tool.pdm.scripts", "tool.pdm.resolution.overrides", "tool.setuptools.dynamic.dependencies"),
)


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "".join(
            ('"', *(f"\\U{ord(c):08x}" for c in value if not "\ud800" <= c <= "\udfff"), '"')
        )
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml(inner)}' for key, inner in value.items())} }}"
    return str(value)


@given(st.sampled_from(TABLES), TREES)
def test_no_shape_of_a_table_raises(table: str, tree: object) -> None:
    text = f"{table} = {toml(tree)}"
    for entry in pyproject.read("p", text):
        assert entry.where == "p:1"


@given(st.sampled_from(sorted(CASES)), st.integers(0, 2000), st.integers(0, 3), st.text(max_size=3))
def test_damage_is_an_entry_and_no_exception(case: str, at: int, cut: int, put: str) -> None:
    text = CASES[case][0]
    damaged = text[:at] + put + text[at + cut :] if cut < 3 else text[:at]
    count = damaged.count("\n") + 1
    for entry in pyproject.read("p", damaged):
        assert 1 <= int(entry.where.removeprefix("p:")) <= count


CONSTRAINTS = {
    "^1.2.3": ">=1.2.3,<2",
    "^1": ">=1,<2",
    "^0.2.3": ">=0.2.3,<0.3",
    "^0.0.3": ">=0.0.3,<0.0.4",
    "^0.0": ">=0.0,<0.1",
    "^0": ">=0,<1",
    "^2.1.0+cu118": ">=2.1.0+cu118,<3",
    "^1!2.0": ">=1!2.0,<1!3",
    "^2.*": ">=2,<3",
    "^v1.2": ">=1.2,<2",
    "~1.2.3": ">=1.2.3,<1.3",
    "~1.2": ">=1.2,<1.3",
    "~ 1": ">=1,<2",
    "~=1.4": "~=1.4",
    "1.2.3": "==1.2.3",
    "=1.2": "==1.2",
    "1.2.*": "==1.2.*",
    "1.x": "==1.*",
    "2.*.*": "==2.*",
    "!=1.2.*": "!=1.2.*",
    "*": "",
    "": "",
    ">=1.0,<2.0,!=1.5": ">=1.0,<2.0,!=1.5",
    ">=1.0 <2.0": ">=1.0,<2.0",
    ">= 1.0 , < 2.0": ">=1.0,<2.0",
    "===2.0": "===2.0",
    "==2.1.0+cu118": "==2.1.0+cu118",
    "^1 || ^3": None,
    "^beta": None,
    "^" + "9" * 5000: None,
    "!=*": None,
    "@stable": None,
    "latest": "==latest",
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_poetry_s_constraints_are_translated(constraint: str) -> None:
    assert poetry.pep440(constraint) == CONSTRAINTS[constraint]


def test_pythons_are_markers() -> None:
    assert poetry.python_marker("^3.8") == 'python_version >= "3.8" and python_version < "4"'
    assert poetry.python_marker("3.10.*") == 'python_full_version == "3.10.*"'
    assert poetry.python_marker(">=3.8.1") == 'python_full_version >= "3.8.1"'
    assert not poetry.python_marker("*")
    assert not poetry.python_marker("^3.7 || ^4")
