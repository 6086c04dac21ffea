"""What tests share that takes time to make."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from engine_lab import Lab as EngineLab
from fake_musa.build import build
from hypothesis import settings
from installer_lab import Lab, make_lab
from slurm_nodes import SlurmNodes
from ssh_hosts import SshHosts
from wheel_index import served, write_index

# The same examples every time, and no deadline: neither chance nor a busy machine is a fault of what
# is tested. `--hypothesis-profile=default` looks for more, and for new ones.
settings.register_profile("gate", settings.get_profile("ci"), max_examples=30)
settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the expectations of recorded hosts and whole outputs be rewritten."""
    parser.addoption("--update", action="store_true", help="rewrite what is expected")


def pytest_configure() -> None:
    """A shell makes what it starts beside it deaf to Ctrl-C; the programs under test must hear."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Eleven thousand tests are no garbage: do not look for it among them, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    """See :func:`pytest_collection`."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what waits for engines, torch or installers, so that it can run beside the rest."""
    for item in items:
        if item.get_closest_marker("long") and "MUSADOCTOR_TEST_LONG" not in os.environ:
            item.add_marker(
                pytest.mark.skip(reason="takes minutes: MUSADOCTOR_TEST_LONG asks for it")
            )
        fixtures = set(getattr(item, "fixturenames", ()))
        if {"engine_lab", "kubectl"} & fixtures or "ansible" in item.path.name:
            item.add_marker("engines")
        elif {"torch_python", "lab"} & fixtures:
            item.add_marker("beside")


def _without(need: str, reason: str) -> NoReturn:
    """Skip, or fail where MUSADOCTOR_TEST_REQUIRE says that the need must be met."""
    if need in os.environ.get("MUSADOCTOR_TEST_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter that has a real torch."""
    path = os.environ.get("MUSADOCTOR_TEST_TORCH")
    if not path:
        _without("torch", "MUSADOCTOR_TEST_TORCH names no interpreter with torch")
    return path


@pytest.fixture(scope="session")
def fake_musa(torch_python: str) -> Path:
    """The folder of the stand-in torch_musa for that torch, to be put on PYTHONPATH."""
    try:
        return build(torch_python)
    except FileNotFoundError as error:
        _without("torch", f"the stand-in device cannot be built: {error}")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Real pip, uv and poetry, with an index that serves stand-ins."""
    root = tmp_path_factory.mktemp("installers")
    write_index(root / "index")
    with served(root / "index") as index:
        try:
            yield make_lab(root, index)
        except OSError as error:
            _without("installers", f"the installers cannot be had: {error}")


@pytest.fixture(scope="session")
def engine_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineLab]:
    """Namespaces in which sshd, Slurm and MPI are installed."""
    packages = os.environ.get("MUSADOCTOR_TEST_ENGINES")
    if not packages:
        _without("engines", "MUSADOCTOR_TEST_ENGINES names no unpacked engines")
    try:
        made = EngineLab(Path(packages), tmp_path_factory.mktemp("engines"))
    except OSError as error:
        _without("engines", f"no namespaces can be made here: {error}")
    yield made
    made.close()


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The real one, from the unpacked packages or of this machine."""
    unpacked = os.environ.get("MUSADOCTOR_TEST_ENGINES", "")
    found = shutil.which("kubectl", path=f"{unpacked}/usr/bin:{os.environ['PATH']}")
    if not found:
        _without("engines", "there is no kubectl")
    return Path(found)


@pytest.fixture(scope="session")
def eight_hosts(engine_lab: EngineLab) -> Iterator[SshHosts]:
    """Eight hosts with sshd; ask for ``ssh_hosts``, which are healthy for every test."""
    made = SshHosts(engine_lab)
    yield made
    made.close()


@pytest.fixture
def ssh_hosts(eight_hosts: SshHosts) -> Iterator[SshHosts]:
    """The hosts ``h1`` to ``h8``, to be made sick at will; ``h5`` has an older driver."""
    yield eight_hosts
    eight_hosts.mend()


@pytest.fixture(scope="session")
def four_nodes(engine_lab: EngineLab) -> Iterator[SlurmNodes]:
    """Four nodes of a Slurm; ask for ``slurm_nodes``, which are healthy for every test."""
    made = SlurmNodes(engine_lab)
    yield made
    made.close()


@pytest.fixture
def slurm_nodes(four_nodes: SlurmNodes) -> Iterator[SlurmNodes]:
    """The nodes ``n1`` to ``n4``, to be made sick at will."""
    yield four_nodes
    four_nodes.mend()
