"""What a real resolver would do: asked with ``--deep``."""

from musadoctor.api import (
    Absent,
    Finding,
    Fix,
    Judgement,
    Layer,
    Replacement,
    Resolution,
    Unknown,
    check,
)


@check("torch-replaced-by-resolver", layer=Layer.REQUIREMENTS, severity="error")
def torch_replaced_by_resolver(resolution: Resolution | Absent | Unknown) -> Judgement:
    """A dependency of a dependency replaces the vendor's torch.

    ## Why it matters

    A package that no table knows can ask for another torch, itself or through what it depends on.
    The installer then puts the NVIDIA build in the place of the vendor's, without a word and with
    exit code 0. Only a resolver can tell; `musadoctor guard --deep` asks one.

    ## How to fix

    Install the package at the chain's head without its dependencies (`--no-deps`), and then those
    that it needs besides torch; or take a version of it that does with the installed torch.
    `musadoctor guard -- pip install ...` makes the installer keep torch, or give up.

    ## Symptoms

    - `torch.cuda.is_available()` is asked for, and `import torch_musa` fails after an install
    - pip says `Attempting uninstall: torch`

    ## Sources

    Trials with pip 26.3 and uv 0.13.9, 2026-11.
    """
    if not isinstance(resolution, Resolution):
        # resolution-incomplete says so, and the verdict on the lines themselves stands.
        yield Absent(str(resolution))
        return
    by_line: dict[tuple[str, str], list[Replacement]] = {}
    for one in resolution.replacements:
        by_line.setdefault((one.where, one.chain[0]), []).append(one)
    for found in by_line.values():
        # torch is what the others follow.
        head, *others = sorted(found, key=lambda one: (one.name != "torch", len(one.chain)))
        yield Finding(_message(head, others, resolution.resolver), head.where, _fix(head))


def _message(head: Replacement, others: list[Replacement], resolver: str) -> str:
    chain = " -> ".join(head.chain)
    if not head.installed:
        return f"{chain} would come, which is not the vendor's build ({resolver})"
    did = "replace" if head.planned else "remove"
    with_it = [
        f"{one.name} {one.installed}" + (f" by {one.planned}" if one.planned else "")
        for one in others
    ]
    more = f", and with it {', '.join(with_it)}" if with_it else ""
    return f"{chain} would {did} the vendor's {head.name} {head.installed}{more} ({resolver})"


def _fix(head: Replacement) -> Fix:
    if len(head.chain) == 1:
        return Fix(f"Leave the line out: {head.name} is the vendor's to install")
    return Fix(
        f"Install {head.chain[0]} with --no-deps and then what it needs besides {head.name}, or"
        f" take a version of it that does with the installed {head.name}"
    )


@check("resolution-incomplete", layer=Layer.REQUIREMENTS, severity="warning")
def resolution_incomplete(resolution: Resolution | Unknown) -> Judgement:
    """The resolver could not answer for every line.

    ## Why it matters

    What a line brings along is known only for lines that resolve. Packages without wheels are not
    asked about, since their build code would have to run for an answer. The verdict on the lines
    themselves stands.

    ## How to fix

    Look at the dependencies of the lines that are named, or install them with `--no-deps`. Where
    no index answers, set the one that your installer uses, or leave `--deep` out.

    ## Sources

    Trials with pip 26.3 and uv 0.13.9, 2026-11.
    """
    if isinstance(resolution, Unknown):
        yield resolution
        return
    for note in resolution.notes:
        yield Finding(f"{resolution.resolver}: {note}")
    for line in resolution.unresolved:
        yield Finding(f"{line.text}: {line.reason}", line.where)
