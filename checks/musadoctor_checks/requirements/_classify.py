"""One pass over all entries: each falls to the most specific check, and to one only.

The checks of this package take their findings from it. The pass is linear and made once for the
same requirements and stack.
"""

from collections.abc import Iterator

from musadoctor.api import Entry, Finding, Requirements, Stack
from musadoctor_checks.requirements._case import REFUSED, Case
from musadoctor_checks.requirements._includes import chains, included, is_failed, unread
from musadoctor_checks.requirements._markers import holds
from musadoctor_checks.requirements._others import JUDGES, concerns, of_unreadable
from musadoctor_checks.requirements._packages import of_requirement, of_source

Findings = dict[str, list[Finding]]
_made: list[tuple[Requirements, Stack, Findings]] = []


def findings(check: str, requirements: Requirements, stack: Stack) -> Iterator[Finding]:
    """What one check says of the entries."""
    if not _made or _made[0][0] is not requirements or _made[0][1] is not stack:
        _made[:] = [(requirements, stack, _findings(requirements, stack))]
    yield from _made[0][2].get(check, ())


def _findings(requirements: Requirements, stack: Stack) -> Findings:
    cases: list[tuple[Entry, Case]] = []
    environment = tuple(stack.markers.items())
    for entry in requirements.entries:
        true = not entry.marker or holds(entry.marker, entry.scope, environment)
        case = _case(entry, stack) if true else _bad_marker(entry) if true is None else None
        if case:
            cases.append((entry, _of_a_task(entry, case)))
    cases += included(requirements, cases)
    above = chains(requirements)
    named = {file.path for file in requirements.files if above and not file.included_by}
    # A package that a lock takes from an index for CUDA is one cause.
    refused = {
        entry.where for entry, case in cases if case.check in REFUSED and not _is_index(entry)
    }
    found: dict[str, dict[tuple[str, str], Finding]] = {}
    for entry, case in cases:
        if _is_index(entry) and entry.scope == "lock" and entry.where in refused:
            continue
        path = entry.where.rpartition(":")[0]
        # A file is judged as itself and as a part of an image: what holds for both is said once.
        chain = "" if path in named and not entry.fresh else above.get(path, "")
        once = found.setdefault(case.check, {})
        if (key := (entry.where, case.message)) not in once or not chain:
            once[key] = Finding(f"{case.message}{chain}", entry.where, case.fix)
    return {check: list(once.values()) for check, once in found.items()}


def _is_index(entry: Entry) -> bool:
    return entry.kind == "index"


def _bad_marker(entry: Entry) -> Case:
    return of_unreadable(entry._replace(reason=f"its marker is not valid: {entry.marker}"))


def _case(entry: Entry, stack: Stack) -> Case | None:
    if entry.kind == "requirement":
        return of_requirement(entry, stack)
    if entry.kind == "source":
        return of_source(entry)
    # pip would fetch what the guard does not.
    if is_failed(entry) and not ("://" in entry.url and concerns(entry.url)):
        return unread(entry)
    judge = JUDGES.get(entry.kind)
    return judge(entry) if judge else None


def _of_a_task(entry: Entry, case: Case) -> Case:
    """A command in a task is refused as such: nobody expects an installation there."""
    if entry.scope != "task" or case.check not in REFUSED:
        return case
    return Case("script-install", f"a task installs it: {case.message}", case.fix)
