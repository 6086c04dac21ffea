"""What tests share that takes time to make."""

import os
from pathlib import Path
from typing import NoReturn

import pytest
from fake_musa.build import build


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the expectations of recorded hosts and whole outputs be rewritten."""
    parser.addoption("--update", action="store_true", help="rewrite what is expected")


def _without_torch(reason: str) -> NoReturn:
    """Skip, or fail where MUSADOCTOR_TEST_REQUIRE says that torch must be there."""
    if "torch" in os.environ.get("MUSADOCTOR_TEST_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter that has a real torch."""
    path = os.environ.get("MUSADOCTOR_TEST_TORCH")
    if not path:
        _without_torch("MUSADOCTOR_TEST_TORCH names no interpreter with torch")
    return path


@pytest.fixture(scope="session")
def fake_musa(torch_python: str) -> Path:
    """The folder of the stand-in torch_musa for that torch, to be put on PYTHONPATH."""
    try:
        return build(torch_python)
    except FileNotFoundError as error:
        _without_torch(f"the stand-in device cannot be built: {error}")
