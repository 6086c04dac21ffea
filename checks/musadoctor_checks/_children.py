"""How a step of the torch child ended, in words, and what to do next."""

import shlex

from musadoctor.api import Absent, ChildFailure, Fix, Python, Unknown
from musadoctor_checks.knowledge import explained

ENDINGS = {
    "exception": "fails",
    "hang": "does not come back",
    "signal": "crashes",
    "exit": "ends the interpreter",
    "memory": "is killed",
    "flooded": "floods its output",
}


def told(failure: ChildFailure) -> str:
    """One line: the step, how it ended, the innermost exception, what that means."""
    known = explained((failure.message, *failure.chain))
    meaning = f" ({known.meaning})" if known else ""
    return f"{failure.step} {ENDINGS.get(failure.kind, 'fails')}: {failure.message}{meaning}"


def command(python: Python | Absent | Unknown, code: str, before: str = "", after: str = "") -> str:
    """Run ``code`` in the examined interpreter, with torch's autoload off."""
    path = shlex.quote(python.path) if isinstance(python, Python) else "python3"
    return (
        f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 {before}{path} -X faulthandler -c {shlex.quote(code)}"
        f"{after}"
    )


def remedy(  # noqa: PLR0911 - one a kind
    failure: ChildFailure, python: Python | Absent | Unknown, code: str, other: Fix
) -> Fix:
    """What to do about a failure; ``code`` repeats it, ``other`` is for unknown exceptions."""
    known = explained((failure.message, *failure.chain))
    if known:
        return Fix(known.fix, (command(python, code),))
    if failure.kind == "hang":
        timer = f"import faulthandler; faulthandler.dump_traceback_later(30); {code}"
        return Fix(
            "See where it waits: the command prints the stack after 30 s. A process that cannot be"
            " killed hangs in the driver; then look into the kernel log",
            (command(python, timer, before="timeout 60 "),),
        )
    if failure.kind == "signal":
        return Fix(
            "See where it crashes: the command prints the stack. A library of another build is the"
            " usual reason",
            (command(python, code),),
        )
    if failure.kind == "exit":
        return Fix(
            "See which module was imported last before the interpreter ended",
            (command(python, code, before="PYTHONVERBOSE=1 ", after=" 2>&1 | tail -20"),),
        )
    if failure.kind == "memory":
        return Fix(
            "Give it more memory, or see in the kernel log who was killed and why",
            ("sudo dmesg | grep -i -e oom -e 'killed process'",),
        )
    if failure.kind == "flooded":
        return Fix(
            "Look at what it prints, and switch that off",
            (command(python, code, after=" 2>&1 | head -50"),),
        )
    return other
