import pytest
from entry_lines import lines
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements import setup_py

CASES = {
    "a whole file": (
        '''\
"""CUDAExtension is only mentioned here."""
import os
import sys

from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

CUDA = os.environ.get("CUDA_HOME") or "/usr/bin/nvcc"
TORCH = "2.4.0"
REQUIRED_PACKAGES = [
    "torch>=2.5.1",
    "torchvision" if sys.version_info >= (3, 9) else "torchvision<=0.13.0",
]
REQUIRED_PACKAGES += ["scipy"]
REQUIRED_PACKAGES.append(f"torchaudio=={TORCH}+cu121")
REQUIRED_PACKAGES.insert(0, "wheel" + "==" + TORCH)
REQUIRED_PACKAGES.extend(("numpy", "x @ git+https://u:p@example.invalid/x"))
UNUSED = ["cupy"]
EXTRAS: dict = {
    "gpu": ["cupy-cuda12x"],
    "flash:sys_platform == 'linux'": ["flash-attn"],
}
EXTRAS["all"] = EXTRAS["gpu"] + ["bitsandbytes"]
EXTRAS["dev"].append("pytest")

setup(
    name="x",
    install_requires=REQUIRED_PACKAGES,
    extras_require=EXTRAS,
    setup_requires="""
        ninja  # builds
        # packaging
        packaging
    """,
    tests_require=("mock",),
    ext_modules=[CUDAExtension("x", ["x.cu"])],
)
''',
        [
            "6 extension CUDAExtension",
            "6 extension torch.utils.cpp_extension",
            "8 extension CUDA_HOME",
            "8 extension nvcc",
            "11 requirement torch >=2.5.1",
            "12 requirement torchvision",
            "12 requirement torchvision <=0.13.0",
            "14 requirement scipy",
            "15 requirement torchaudio ==2.4.0+cu121",
            "16 requirement wheel ==2.4.0",
            "17 requirement numpy",
            "17 source x @git+https://example.invalid/x",
            "20 requirement cupy-cuda12x <extra:gpu>",
            "21 requirement flash-attn <extra:flash>",
            "23 requirement bitsandbytes <extra:all>",
            "24 requirement pytest <extra:dev>",
            "31 requirement ninja <build>",
            "33 requirement packaging <build>",
            "35 requirement mock <group:tests>",
        ],
    ),
    "functions, comprehensions and conditions": (
        '''\
def base():
    found = []
    for line in """torch==2.1
numpy""".splitlines():
        found.append(line.strip())
    if not found:
        return
    return found
if (more := ["triton"]):
    pass
kept = {name for name in ["a", "b"] if name} | set(more)
setup(install_requires=[*base(), *sorted(kept)] + (more or ["c"]) + list(f"d-{x}" for x in "ef"),
      extras_require=dict(gpu="cupy nvidia-cublas".split(), cpu="a,b".split(","), **{"t": None}))
''',
        [
            "3 requirement torch ==2.1",
            "4 requirement numpy",
            "9 requirement triton",
            "11 requirement a",
            "11 requirement b",
            "12 requirement c",
            "12 unreadable !put together when setup.py runs",
            "13 requirement cupy <extra:gpu>",
            "13 requirement nvidia-cublas <extra:gpu>",
            "13 requirement a <extra:cpu>",
            "13 requirement b <extra:cpu>",
        ],
    ),
    "texts that only the run knows": (
        """\
version = get()
install_requires = ["torch==" + version, "a==%s" % version, "b=={}".format(version), f"c{version}"]
extras_require = {name: ["d"] for name in names}
other = {"install_requires": [e], "setup_requires": [version], key: 1}
other["tests_require"] = ["f"]
other[0] = other.x = 1
setup(**other)
setup(install_requires=[lambda: 1, f"g{version!r}", "h".split(), (get)()(), get().split()])
""",
        [
            "1 unreadable <build> !known only when setup.py runs",
            *4 * ("2 unreadable !put together when setup.py runs",),
            "3 requirement d <extra:...>",
            "4 unreadable !known only when setup.py runs",
            "5 requirement f <group:tests>",
            "8 unreadable !known only when setup.py runs",
            "8 unreadable !put together when setup.py runs",
            "8 requirement h",
            "8 unreadable !known only when setup.py runs",
            "8 unreadable !known only when setup.py runs",
        ],
    ),
    "files": (
        """\
def read(name):
    with open(os.path.join(here, "requirements", name)) as file:
        return file.read().splitlines()
setup(
    install_requires=read("requirements.txt"),
    extras_require={"gpu": open(os.path.join("requirements", "gpu.txt")).readlines()},
    long_description=open("README.txt").read(),
    package_data={"x": ["requirements-packed.txt"]},
)
""",
        ["5 include @requirements.txt file:", "6 include @requirements/gpu.txt file:"],
    ),
    "names that lead in a circle": (
        (
            "a = b + ['x']\nb = a\ne['a'] = e['a'] + ['y']\n"
            "setup(install_requires=a, extras_require=e, setup_requires=list(e.values()) + f['a'])\n"
        ),
        ["1 requirement x", "3 requirement y <extra:a>", "4 unreadable <build> !known only"],
    ),
    "nothing": ("import os\nprint(os)\n", []),
    "Python 2": ("import os\nprint 'torch'\n", ["2 unreadable !no Python 3: "]),
    "a warning": ("x = '\\d'\nsetup(install_requires=['torch'])\n", ["2 requirement torch"]),
    "a half of a letter": ("x = '\ud800'\n", ["1 unreadable !no Python 3: "]),
    "NUL": ("x = '\0'\n", ["1 unreadable !no Python 3: "]),
    "brackets": ("(" * 1000, ["1 unreadable !no Python 3: "]),
    "signs": ("-" * 100_000 + "1", ["1 unreadable !nested too deeply to be read"]),
    "attributes": ("x" + ".a" * 50_000, ["1 unreadable !nested too deeply to be read"]),
    "large": ("#" * setup_py.LARGEST + "\n", ["1 unreadable !200,001 characters of Python"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_setup_py_is_read(case: str) -> None:
    text, expected = CASES[case]
    found = lines(setup_py.read("setup.py", text))
    shortened = [
        line[: len(wanted)] if "!" in wanted else line
        for line, wanted in zip(found, expected, strict=True)
    ]
    assert shortened == expected


def test_a_tree_too_deep_for_its_reader_is_one_entry() -> None:
    # Python's own parser takes what is as deep as this.
    text = f"setup(install_requires={'[*' * 90}['torch']{']' * 90})"
    assert lines(setup_py.read("s", text)) == ["1 requirement torch"]
    chain = "\n".join(f"a{n} = [*a{n + 1}]" for n in range(2000))
    (entry,) = setup_py.read("s", f"{chain}\nsetup(install_requires=a0)")
    assert entry.kind == "unreadable"
    assert "nested too deeply" in entry.reason


def test_names_that_double_what_they_stand_for_end() -> None:
    lists = "".join(f"a{n} = a{n + 1} + a{n + 1}\n" for n in range(100))
    texts = "".join(f"b{n} = 'x' + b{n + 1} + b{n + 1}\n" for n in range(100))
    found = list(setup_py.read("s", f"{lists}{texts}setup(install_requires=a0 + [b0])"))
    assert [entry.kind for entry in found] == ["unreadable"] * 3


def test_nothing_is_run(tmp_path: object) -> None:
    text = f"open({str(tmp_path) + '/run'!r}, 'w')\nraise SystemExit(3)\n"
    assert not list(setup_py.read("s", text))


@given(st.sampled_from(sorted(CASES)), st.integers(0, 1500), st.integers(0, 5), st.text(max_size=3))
def test_damage_is_an_entry_and_no_exception(case: str, at: int, cut: int, put: str) -> None:
    text = CASES[case][0][:3000]
    damaged = text[:at] + put + text[at + cut :]
    for entry in setup_py.read("s", damaged):
        assert 1 <= int(entry.where.removeprefix("s:")) <= damaged.count("\n") + 1
