import configparser

import pytest
from entry_lines import lines
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements import setup_cfg

CASES = {
    "lists": (
        """\
# install_requires = x
[metadata]
name = torch
[options]
install_requires =
    torch==2.4.0; sys_platform == "linux"  # the first
    # torch==1
    ; torch==1

    numpy>=1
setup-requires: ninja; torch>=2
tests_require = pytest;; mock ;
python_requires = >=3.8
zip_safe: no
[options.extras_require]
gpu =
    cupy-cuda12x
all = triton
  x @ https://u:p@example.invalid/x-1.0+cu118-cp310-cp310-linux_x86_64.whl
[options.package_data]
gpu = torch
""",
        [
            '6 requirement torch ==2.4.0 ;sys_platform == "linux"',
            "10 requirement numpy >=1",
            "11 requirement ninja <build>",
            "11 requirement torch >=2 <build>",
            "12 requirement pytest <group:tests>",
            "12 requirement mock <group:tests>",
            "17 requirement cupy-cuda12x <extra:gpu>",
            "18 requirement triton <extra:all>",
            (
                "19 requirement x ==1.0+cu118 "
                "@https://example.invalid/x-1.0+cu118-cp310-cp310-linux_x86_64.whl <extra:all>"
            ),
        ],
    ),
    "files": (
        (
            "[options]\ninstall_requires = file: a.txt, b.txt\nsetup_requires =\n  file: c.txt\n"
            "[options.extras_require]\ngpu = file:d.txt,\n"
        ),
        [
            "2 include @a.txt file:",
            "2 include @b.txt file:",
            "4 include @c.txt <build> file:",
            "6 include @d.txt <extra:gpu> file:",
        ],
    ),
    "no section": ("install_requires = x\n", ["1 unreadable !no section before the first option"]),
    "no option": (
        "[options]\ninstall_requires = torch\nnonsense\n",
        ["2 requirement torch", "3 unreadable !neither an option nor a section"],
    ),
    "empty": ("", []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_setup_cfg_is_read(case: str) -> None:
    text, expected = CASES[case]
    assert lines(setup_cfg.read("setup.cfg", text)) == expected
    assert lines(setup_cfg.read("setup.cfg", text.replace("\n", "\r\n"))) == expected


PARTS = st.sampled_from(
    [
        *("[options]", "[options.extras_require]", "[other]", "[a]b]", "", "  ", "# c", "  ; c"),
        *("install_requires =", "install_requires: a", "setup_requires = b", "x = y", "y"),
        *("  torch", "    numpy>=1", "\ttriton", "  k = v", " [options]", "gpu =", "cpu = c; d"),
    ]
)


@given(st.lists(PARTS, max_size=12))
def test_it_goes_by_the_rules_of_configparser(parts: list[str]) -> None:
    text = "\n".join(parts)
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    try:
        parser.read_string(text)
    except configparser.Error:
        assert any(entry.kind == "unreadable" for entry in setup_cfg.read("s", text))
        return
    expected = {
        (section, option): [line for line in parser[section][option].split("\n") if line]
        for section in parser.sections()
        for option in parser[section]
    }
    found = {(o.section, o.key): [line for _, line in o.lines] for o in setup_cfg._options(text)}
    assert found == expected


@given(st.text())
def test_no_text_raises(text: str) -> None:
    for entry in setup_cfg.read("s", f"[options]\ninstall_requires = {text}"):
        assert int(entry.where.removeprefix("s:")) >= 2
