"""The transcripts whose causes are known, and what is said of them, by ``benchmarks/diagnosis.py``."""

import importlib.util
import sys
from functools import cache
from typing import Any

from support import TESTS

_SPEC = importlib.util.spec_from_file_location(
    "diagnosis", TESTS.parent / "benchmarks/diagnosis.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
diagnosis = importlib.util.module_from_spec(_SPEC)
sys.modules["diagnosis"] = diagnosis
_SPEC.loader.exec_module(diagnosis)

EXPECTED = diagnosis.expected()


@cache
def diagnosed(name: str) -> Any:
    """What is said of one of them."""
    return diagnosis.diagnosed(name, EXPECTED[name])
