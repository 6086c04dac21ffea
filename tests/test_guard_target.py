"""Which environment a command would install into."""

import pytest
from support import file, folder, host

from musadoctor.facts.base import Absent, Unknown
from musadoctor.guard.target import Target, target
from musadoctor.requirements.installers import parse
from musadoctor.system import NOT_ALLOWED, Failure, Found, Ran, System

VENV = "/opt/venv/bin/python"
HOME = {"HOME": "/home/u"}


def programs(*paths: str) -> dict[str, Found]:
    """Programs that are there, each by its path and by its name."""
    return {name: Found(path) for path in paths for name in (path, path.rpartition("/")[2])}


def there(*paths: str) -> dict[str, object]:
    """Interpreters that are there."""
    return {"stats": {path: file() for path in paths}, "programs": programs(*paths)}


def script(text: str, *interpreters: str) -> dict[str, object]:
    """A machine whose pip on PATH has this text."""
    return {
        "files": {"/usr/bin/pip": text},
        "programs": {**programs(*interpreters), "pip": Found("/usr/bin/pip")},
    }


def answered(key: str, ran: Ran, *paths: str) -> dict[str, object]:
    return {**there(*paths), "runs": {key: ran}}


HERE = {".": folder("/srv/p/sub/deep")}
PROJECT = {"/srv/p/pyproject.toml": "[project]\n"}
WORKSPACE = {
    "/srv/p/sub/pyproject.toml": "[project]\n",
    "/srv/p/pyproject.toml": "[tool.uv.workspace]\nmembers = ['sub']\n",
}
POETRY = "poetry --no-interaction env info --path"


@pytest.mark.parametrize(
    ("command", "machine", "expected"),
    [
        ("python3.10 -m pip install a", there("/usr/bin/python3.10"), "/usr/bin/python3.10"),
        ("/opt/venv/bin/python -Im pip install a", there(VENV), VENV),
        ("nice python -mpip install a", there("/usr/bin/python"), "/usr/bin/python"),
        ("pip --python /opt/venv install a", {
            "stats": {"/opt/venv": folder("/opt/venv")}, "programs": programs(VENV)}, VENV),
        ("pip --python python3.12 install a", there("/usr/bin/python3.12"), "/usr/bin/python3.12"),
("pip install a", {**script("#!/opt/venv/bin/python\n", VENV), "variables": {"PIP_PYTHON": VENV}}, VENV),
        ("pip install a", script("#!/opt/venv/bin/python\n", VENV), VENV),
        ("pip install a", script("#!/usr/bin/env python3\n", "/bin/python3"), "/bin/python3"),
        ("pip install a", script("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n", "/a b/python"), "/a b/python"),
        ("pip install a", script("#!/bin/sh\n'''exec' /a/python \"$0\" \"$@\"\n", "/a/python"), "/a/python"),
        ("pip install a", script("#!/usr/bin/env bash\n exec pyenv exec\n", "/usr/bin/python"), "/usr/bin/python"),
        ("pip3.10 install a", {
            "files": {"/usr/bin/pip3.10": "#!/bin/bash\npyenv\n exec x\n"},
            "programs": programs("/usr/bin/pip3.10", "/usr/bin/python3.10")}, "/usr/bin/python3.10"),
        ("/opt/venv/bin/pip install a", {
            "files": {"/opt/venv/bin/pip": "#!/old/bin/python\n"},
            "programs": programs("/opt/venv/bin/pip", "/old/bin/python")}, "/old/bin/python"),
        ("uv pip install -p /opt/venv/bin/python a", there(VENV), VENV),
        ("uv pip install --system a", there("/usr/bin/python3"), "/usr/bin/python3"),
        ("uv pip install a", {**there("/usr/bin/python"), "variables": {"UV_SYSTEM_PYTHON": "1"}}, "/usr/bin/python"),
        ("uv pip install a", {**there(VENV), "variables": {"UV_PYTHON": VENV}}, VENV),
        ("uv pip install a", {**there(VENV), "variables": {"VIRTUAL_ENV": "/opt/venv"}}, VENV),
        ("uv pip install a", {**there(VENV), "variables": {"CONDA_PREFIX": "/opt/venv/"}}, VENV),
        ("uv pip install a", {
            "stats": {**HERE, "/srv/p/.venv/bin/python": file()}}, "/srv/p/.venv/bin/python"),
        ("uv pip install a", {
            "variables": {"CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "base"},
            "stats": {"/c/bin/python": file()}, "programs": programs("/c/bin/python")}, "/c/bin/python"),
        ("uv sync", {
            "files": PROJECT, "stats": {**HERE, "/srv/p/.venv/bin/python": file()}}, "/srv/p/.venv/bin/python"),
        ("uv sync", {
            "files": WORKSPACE, "stats": {**HERE, "/srv/p/.venv/bin/python": file()}}, "/srv/p/.venv/bin/python"),
        ("uv sync --project /srv/p/sub/pyproject.toml", {
            "files": PROJECT,
            "stats": {"/srv/p/sub/pyproject.toml": file(), "/srv/p/sub": folder("/srv/p/sub"),
                      "/srv/p/.venv/bin/python": file()}}, "/srv/p/.venv/bin/python"),
        ("uv sync", {
            "files": PROJECT, "variables": {"UV_PROJECT_ENVIRONMENT": "env"},
            "stats": {**HERE, "/srv/p/env/bin/python": file()}}, "/srv/p/env/bin/python"),
        ("uv sync --active", {
            "files": PROJECT, "variables": {"VIRTUAL_ENV": "/opt/venv"},
            "stats": {**HERE, VENV: file()}}, VENV),
        ("poetry install", answered(POETRY, Ran("ok", 0, "/opt/venv\n"), VENV), VENV),
        ("poetry -C /p install", answered(
            "poetry --directory /p --no-interaction env info --path", Ran("ok", 0, "/opt/venv"), VENV), VENV),
        ("pipenv install a", answered("pipenv --venv", Ran("ok", 0, "/opt/venv\n"), VENV), VENV),
        ("pipenv install --system a", there("/usr/bin/python"), "/usr/bin/python"),
        ("pdm add a", {
            "files": {**PROJECT, "/srv/p/.pdm-python": f"{VENV}\n"}, "stats": HERE, "programs": programs(VENV)}, VENV),
        ("pixi add a", {
            "files": {"/srv/p/pixi.toml": ""}, "folders": {"/srv/p/.pixi/envs": ["default", "old"]},
            "stats": {**HERE, "/srv/p/.pixi/envs/default/bin/python": file()}}, "/srv/p/.pixi/envs/default/bin/python"),
        ("rye add a", {
            "files": PROJECT, "stats": {**HERE, "/srv/p/.venv/bin/python": file()}}, "/srv/p/.venv/bin/python"),
        ("conda install a", {**there("/c/envs/gpu/bin/python"), "variables": {"CONDA_PREFIX": "/c/envs/gpu"}}, "/c/envs/gpu/bin/python"),
        ("conda install -p /c/envs/gpu a", there("/c/envs/gpu/bin/python"), "/c/envs/gpu/bin/python"),
        ("mamba install -n /c/envs/gpu a", there("/c/envs/gpu/bin/python"), "/c/envs/gpu/bin/python"),
        ("conda install -n gpu a", {
            **there("/c/envs/gpu/bin/python"), "variables": {"CONDA_EXE": "/c/bin/conda"}}, "/c/envs/gpu/bin/python"),
        ("conda install -n base a", {
            **there("/c/bin/python"), "variables": {"CONDA_PREFIX": "/c/envs/gpu"}}, "/c/bin/python"),
        ("conda install -n gpu a", {
            **there("/e/gpu/bin/python"), "variables": {"CONDA_ENVS_PATH": "/x:/e"}}, "/e/gpu/bin/python"),
        ("conda install -n gpu a", {
            **there("/far/gpu/bin/python"), "variables": HOME,
            "files": {"/home/u/.conda/environments.txt": "/c\n/far/gpu\n"}}, "/far/gpu/bin/python"),
    ],
)  # fmt: skip
def test_the_interpreter(command: str, machine: dict[str, object], expected: str) -> None:
    it = found(command, machine)
    assert isinstance(it, Target), it
    assert it.pythons == (expected,)


def found(command: str, machine: dict[str, object]) -> Target | Absent | Unknown:
    install = parse(command.split())
    assert install is not None
    assert not install.harmless
    system: System = host(**machine)  # type: ignore[arg-type]
    return target(install, system)


def test_of_pip_both_that_it_may_be_are_looked_at() -> None:
    machine = {**there(VENV, "/bin/python"), "variables": {"PIP_PYTHON": VENV}}
    assert found("python -m pip install a", machine) == Target((VENV, "/bin/python"), "PIP_PYTHON")
    machine["variables"] = {"PIP_PYTHON": "/gone"}
    assert found("python -m pip install a", machine) == Unknown(
        "PIP_PYTHON: no /gone that can be executed"
    )


def test_of_pdm_all_that_it_may_be_are_looked_at() -> None:
    machine = {
        "files": PROJECT,
        "variables": {"VIRTUAL_ENV": "/opt/venv"},
        "stats": {**HERE, VENV: file(), "/srv/p/.venv/bin/python": file()},
    }
    assert found("pdm add a", machine) == Target(
        (VENV, "/srv/p/.venv/bin/python"), "pdm's environment"
    )


@pytest.mark.parametrize(
    ("command", "machine", "reason"),
    [
        ("pipx install a", {}, "pipx install has an environment of its own"),
        ("uv tool install a", {}, "uv tool install has an environment of its own"),
        ("uv run --isolated a", {}, "uv run has an environment of its own here"),
        ("uv run a", {}, "there is no pyproject.toml here"),
        ("uv sync", {"files": PROJECT, "stats": HERE}, "the project's environment: no /srv/p/.venv/bin/python yet"),
        ("poetry install", answered(POETRY, Ran("failed", 1)), "poetry will make an environment"),
        ("pipenv install", answered("pipenv --venv", Ran("failed", 1)), "pipenv will make an environment"),
        ("pdm add a", {"files": PROJECT, "stats": HERE}, "pdm will make an environment"),
        ("pixi add a", {}, "pixi will make an environment"),
        ("conda create -n gpu a", {}, "conda create makes an environment"),
        ("conda env create", {}, "conda env create makes an environment"),
    ],
)  # fmt: skip
def test_an_environment_of_its_own(command: str, machine: dict[str, object], reason: str) -> None:
    assert found(command, machine) == Absent(reason)


@pytest.mark.parametrize(
    ("command", "machine", "reason"),
    [
        ("pip install a", {}, "no pip on PATH"),
        ("pip install a", {"programs": {"pip": Failure(NOT_ALLOWED, "closed")}}, "no pip on PATH"),
        ("pip install a", script("#!/bin/sh\nexec magic\n"), "it is no script of pip's"),
        ("pip install a", script("\x7fELF"), "it is no script of pip's"),
        ("pip install a", {"programs": {"pip": Found("/bin/pip")}}, "which interpreter /bin/pip has is not known: no /bin/pip"),
        ("pip install a", script("#!/gone/python\n"), "no /gone/python that can be executed"),
        ("python9 -m pip install a", {}, "no python9 that can be executed"),
        ("uv pip install -p 3.11 a", {}, "--python 3.11 leaves it to uv"),
        ("uv pip install -p cpython@3.11 a", {}, "leaves it to uv"),
        ("uv pip install a", {"variables": {"UV_PYTHON": ">=3.10"}}, "UV_PYTHON >=3.10 leaves it to uv"),
        ("uv pip install a", {}, "no python on PATH"),
        ("poetry install", answered(POETRY, Ran("timed out", note="no answer in 10 s")), "does not say which environment it uses: no answer in 10 s"),
        ("pipenv install", answered("pipenv --venv", Ran("not there")), "pipenv does not say which environment it uses: not there"),
        ("pdm add a", {}, "pdm's environment is not known"),
        ("conda install a", {}, "no conda environment is active"),
        ("conda install -n gpu a", {}, "where the conda environment 'gpu' is is not known"),
    ],
)  # fmt: skip
def test_not_known(command: str, machine: dict[str, object], reason: str) -> None:
    it = found(command, machine)
    assert isinstance(it, Unknown)
    assert reason in str(it)
