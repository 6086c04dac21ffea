"""What a file leaves open: lines that cannot be read, sources, other files, commands in tasks."""

from musadoctor.api import Judgement, Layer, Requirements, Stack, check
from musadoctor_checks.requirements._classify import findings


@check("unparsable-torch", layer=Layer.REQUIREMENTS, severity="error")
def unparsable_torch(requirements: Requirements, stack: Stack) -> Judgement:
    """A line that cannot be read may concern torch or CUDA.

    ## Why it matters

    What it would install is not known: a placeholder that is to be filled in, a command pasted into
    a requirements file, a file that breaks off. As it names torch, CUDA or a package for CUDA, it
    is refused rather than guessed at.

    ## How to fix

    Fill in the placeholder and judge what comes of it; write the line as pip can read it; or leave
    it out.

    ## Symptoms

    - `torch=={{ torch_version }}+cu{{ cuda_version }}`
    - `pip install torch==2.4.0` in a requirements file
    - `torchvision==0.19.0#no comment`

    ## Sources

    PEP 508; pip's requirements file format, 2026-11.
    """
    return findings("unparsable-torch", requirements, stack)


@check("unparsable-line", layer=Layer.REQUIREMENTS, severity="warning")
def unparsable_line(requirements: Requirements, stack: Stack) -> Judgement:
    """A line cannot be read.

    ## Why it matters

    Nothing in it names torch or CUDA. Still, what it would install is not known, and pip refuses
    the whole file for some such lines.

    ## How to fix

    Fill in the placeholder, or write the line as pip can read it.

    ## Symptoms

    - `numpy=={{ numpy_version }}`
    - `<your-package-here>`

    ## Sources

    PEP 508; pip's requirements file format, 2026-11.
    """
    return findings("unparsable-line", requirements, stack)


@check("unvetted-source", layer=Layer.REQUIREMENTS, severity="warning")
def unvetted_source(requirements: Requirements, stack: Stack) -> Judgement:
    """A package is built from a repository or a folder that was not read.

    ## Why it matters

    What it depends on and what it compiles shows only when it is built, and then it may be too
    late.

    ## How to fix

    Judge its own files: `musadoctor guard FOLDER`. Install it with `--no-build-isolation`, and with
    `--no-deps` where it names torch.

    ## Symptoms

    - `git+https://github.com/someone/something.git`
    - `-e .`

    ## Sources

    pip's documentation of VCS support, 2026-11.
    """
    return findings("unvetted-source", requirements, stack)


@check("include-refused", layer=Layer.REQUIREMENTS, severity="error")
def include_refused(requirements: Requirements, stack: Stack) -> Judgement:
    """A file includes another one that is refused.

    ## Why it matters

    pip installs what the included file asks for as if it stood in this one. What is wrong with it
    is shown at its own lines.

    ## How to fix

    Include a copy that is safe on MUSA; `musadoctor guard --write` makes it.

    ## Symptoms

    - `-r requirements-cuda.txt`

    ## Sources

    pip's requirements file format, 2026-11.
    """
    return findings("include-refused", requirements, stack)


@check("include-unread", layer=Layer.REQUIREMENTS, severity="warning")
def include_unread(requirements: Requirements, stack: Stack) -> Judgement:
    """An included file could not be read.

    ## Why it matters

    It is a part of what would be installed, and nothing is known of it. pip would stop, too, where
    it is not there.

    ## How to fix

    Put it where the line says, or judge it on its own.

    ## Symptoms

    - `-r /tmp/requirements.txt`
    - `-r https://example.com/requirements.txt`

    ## Sources

    pip's requirements file format, 2026-11.
    """
    return findings("include-unread", requirements, stack)


@check("script-install", layer=Layer.REQUIREMENTS, severity="error")
def script_install(requirements: Requirements, stack: Stack) -> Judgement:
    """A task of the project installs what is refused.

    ## Why it matters

    A task of hatch, pdm or pixi that runs an installer is easily missed: nobody who runs it expects
    torch to be replaced.

    ## How to fix

    Take the installation out of the task, or have it install what the message names.

    ## Symptoms

    - `post = "pip install torch==2.1.0+cu118"` under `[tool.pixi.tasks]`

    ## Sources

    The documentation of hatch, pdm and pixi on scripts and tasks, 2026-11.
    """
    return findings("script-install", requirements, stack)
