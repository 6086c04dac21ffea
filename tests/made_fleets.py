"""Fleets of made-up hosts, for the renderers."""

from collections.abc import Iterable, Mapping

from summaries import LOCKUP, NARROW, answered

from musadoctor.fleet.skew import skews
from musadoctor.fleet.state import Fleet, LeftOut, Unanswered
from musadoctor.fleet.summary import Cause, HostSummary

NOT_LOADED = Cause(
    "driver-not-loaded",
    "error",
    "The mtgpu kernel module is not loaded",
    "mtgpu is not loaded (/proc/modules), and no package of its source is left to build it for "
    "kernel 5.15.0-107-generic",
    "sudo modprobe mtgpu",
)
TORCH = Cause("torch-for-other-gpus", "error", "torch is built for other GPUs", "", "")
USUAL = {
    "kernel driver": "3.3.5-server",
    "user-space driver": "1.5.0",
    "cards": "8 x MTT S5000",
    "toolkit in use": "4.3.5",
    "muDNN": "3.1.0",
    "kernel": "5.15.0-107-generic",
    "BIOS": "4.0.12 of 03/01/2025",
    "boot parameters": "console=tty0 iommu=pt intel_iommu=on pci=realloc=off quiet splash nokaslr",
    "wheel torch": "2.9.1",
    "wheel torch-musa": "2.9.1.post1",
}
OLD = {
    **USUAL,
    "kernel driver": "3.1.0-server",
    "user-space driver": "1.4.0",
    "toolkit in use": "4.2.0",
    "muDNN": "3.0.0",
    "wheel torch": "2.7.1",
}


def host(
    name: str, *causes: Cause, undecided: tuple[str, ...] = (), bugs: int = 0, **traits: str
) -> HostSummary:
    changed = {key.replace("_", " "): value for key, value in traits.items()}
    return answered(name, *causes, undecided=undecided, bugs=bugs, traits={**USUAL, **changed})


def timed_out(name: str) -> Unanswered:
    return Unanswered(name, "unreachable", f"connect to host {name} port 22: Connection timed out")


def made(
    hosts: Iterable[HostSummary],
    unanswered: Iterable[Unanswered] = (),
    left_out: Iterable[LeftOut] = (),
    groups: Mapping[str, str] | None = None,
    grouped_by: str = "",
) -> Fleet:
    """A fleet that was compared as a real one is."""
    known = tuple(hosts)
    compared = skews(known, groups or {})
    return Fleet(known, tuple(unanswered), tuple(left_out), groups or {}, compared, grouped_by)


def thousand() -> Fleet:
    """Some sick hosts, one that is odd, an upgrade that was not finished, and some silent ones."""
    hosts: list[HostSummary] = []
    for number in range(1, 1001):
        name = f"gpu{number:04}"
        if number in {17, 233}:
            hosts.append(host(name, NOT_LOADED))
        elif number == 42:
            hosts.append(answered(name, TORCH, traits=OLD))
        elif number in {300, 301, 302}:
            hosts.append(host(name, undecided=("gmi-reports-error", "no-gpu")))
        elif number == 303:
            hosts.append(host(name, bugs=1))
        elif number in {500, 700}:
            hosts.append(host(name, LOCKUP))
        elif number % 100 == 9:
            hosts.append(
                host(name, boot_parameters=USUAL["boot parameters"].replace("=pt", "=off"))
            )
        elif number <= 900:
            hosts.append(host(name, *([NARROW] if number % 3 == 0 else [])))
        elif number <= 990:
            hosts.append(host(name, kernel="5.15.0-101-generic"))
    unanswered = [timed_out(f"gpu{number:04}") for number in range(991, 999)]
    unanswered += [
        Unanswered("gpu0999", "refused", "Permission denied (publickey). Try: ssh gpu0999 true"),
        Unanswered("gpu1000", "timed out", "no answer in 80 s"),
    ]
    left_out = [
        LeftOut("reports/a.json", 'expected a musadoctor report of schema_version "1", found "9"'),
        *(LeftOut(f"reports/b.jsonl, line {n}", "no JSON: Expecting value") for n in range(2, 9)),
    ]
    return made(hosts, unanswered, left_out)


def racks() -> Fleet:
    """Two racks of cards of two kinds, which are not compared with each other."""
    hosts = [host(f"r1n{number}") for number in range(1, 9)]
    hosts += [host(f"r2n{number}", cards="4 x MTT S4000") for number in range(1, 8)]
    hosts.append(host("r2n8", NOT_LOADED, cards="3 x MTT S4000"))
    groups = {**{one.host: one.host[:2] for one in hosts}, "r1n9": "r1"}
    return made(hosts, [timed_out("r1n9"), timed_out("x1")], groups=groups, grouped_by="rack")


ALL_WELL = made([host(f"gpu{number}") for number in range(1, 33)])
ONE = made([host("gpu1", LOCKUP)])
NONE_HEALTHY = made(
    [
        host("gpu1", NOT_LOADED),
        host("gpu2", NOT_LOADED, LOCKUP),
        host("gpu3", undecided=("no-gpu",)),
    ],
    [timed_out("gpu4")],
)
NOBODY = made([], [timed_out("gpu1"), timed_out("gpu2")])
EMPTY = made([])
HOSTILE = made(
    [
        answered(
            "gpu1",
            Cause(
                "x\x1b[31m; rm -rf /",
                "error",
                "[bold]t[/bold]",
                "[red]m[/red] \x1b]0;y\x07",
                "[link=x]c",
            ),
            traits={"kernel driver": "[blink]\x1b[5m"},
        ),
        *(answered(f"gpu{number}", traits={"kernel driver": "3.3.5"}) for number in range(2, 9)),
    ],
    [Unanswered("gpu9", "refused", "[u]no[/u] \x1b[2J")],
    [LeftOut("a\x1b[1m.json", "[i]damaged[/i]")],
)
