"""The installed Triton. The vendor's bears the stock one's name and number; its back ends differ.

``triton/backends`` holds ``mtgpu`` in the vendor's 3.2.0, ``amd`` and ``nvidia`` in the stock one.
"""

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Distributions, Python, Triton, TritonFact
from musadoctor.probes.distributions import Package, distributions, package
from musadoctor.probes.python import python
from musadoctor.system import NOT_THERE, Failure, System


def triton(system: System) -> TritonFact:
    """The Triton of the examined interpreter, and what it can compile for."""
    interpreter = python(system)
    if not isinstance(interpreter, Python):
        return interpreter
    found = package(system, interpreter, "triton")
    if not isinstance(found, Package):
        return found
    if not found.regular:
        return Absent(f"{found.path} has no __init__.py, so it is no triton")
    names = system.list(f"{found.path}/backends")
    if isinstance(names, Failure) and names.kind != NOT_THERE:
        return Unknown(str(names))
    installed = distributions(system)
    named = installed.get("triton") if isinstance(installed, Distributions) else None
    return Triton(
        version=named.version if named else None,
        path=found.path,
        backends=()
        if isinstance(names, Failure)
        else tuple(name for name in names if "." not in name and name != "__pycache__"),
    )
