"""Environment variables: where they lead, what contradicts what, what has no effect."""

import posixpath
import re

from musadoctor.api import (
    Absent,
    ComponentLibrary,
    Container,
    DriverFolders,
    Environment,
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    LoadableLibrary,
    Route,
    SearchEntry,
    Toolkit,
    ToolkitRoutes,
    Toolkits,
    TorchMusaBuild,
    Unknown,
    check,
)
from musadoctor_checks._exports import FITTING, exports, without
from musadoctor_checks._messages import by_message
from musadoctor_checks.knowledge import alloc_conf_keys, dated

HOMES = ("MUSA_HOME", "MUSA_PATH")
"""In the order in which torch_musa reads them."""
INDEX = re.compile(r"\d+")
OTHER_DEVICE = re.compile(
    r"-\d+|(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE
)
"""Forms that other software's documents give: ``-0`` (llama.cpp), UUIDs (vllm-musa)."""
GPU_LIBRARY = re.compile(
    r"lib(?:cuda|cudart|cudnn|cublas\w*|nccl|nvidia-\w+|musa|musart|mudnn|mccl|mublas\w*)(?:[-.].*)?"
)


def _home(environment: Environment) -> tuple[str, str] | None:
    """The variable that names the Toolkit in use, with its value."""
    named = ((name, environment.get(name)) for name in HOMES)
    return next(((name, value) for name, value in named if value), None)


def _use(toolkits: Toolkits | Absent | Unknown) -> Fix:
    """Which MUSA_HOME would be right here."""
    if isinstance(toolkits, Toolkits):
        roots = [tree.root for tree in toolkits.installed]
        if len(roots) == 1:
            return Fix(f"Set MUSA_HOME to {roots[0]}", (f"export MUSA_HOME={roots[0]}",))
        return Fix(
            f"Set MUSA_HOME to one of the installed Toolkits: {', '.join(roots)}; the command takes"
            " the one that fits the installed torch_musa",
            (FITTING,),
        )
    return Fix(
        "Unset it, or install the Toolkit that it is to name", ("unset MUSA_HOME MUSA_PATH",)
    )


@check("musa-home-wrong", layer=Layer.ENVIRONMENT, severity="error")
def musa_home_wrong(
    environment: Environment,
    toolkit: Toolkit | Absent | Unknown,
    toolkits: Toolkits | Absent | Unknown,
) -> Judgement:
    """MUSA_HOME does not lead to a MUSA Toolkit.

    ## Why it matters

    torch_musa, torchada, MATE and vllm-musa take `MUSA_HOME` (torch_musa also `MUSA_PATH`) at its
    word. Where it leads to a Toolkit that was removed, or to its `bin` folder, they find neither
    libraries nor compiler.

    ## How to fix

    Set `MUSA_HOME` to the root of an installed Toolkit, the folder that holds `bin`, `lib` and
    `version.json`, usually `/usr/local/musa-X.Y.Z`. Correct it where it is set: a shell profile, a
    Dockerfile, a job script.

    ## Sources

    torch_musa source, vllm-musa documentation (2026).
    """
    named = _home(environment)
    if named is None:
        return
    name, value = named
    if isinstance(toolkit, Unknown):
        yield toolkit
    elif isinstance(toolkit, Absent):
        yield Finding(f"no Toolkit by {name}={value}: {toolkit}", where=name, fix=_use(toolkits))
    elif not _is_toolkit(toolkit):
        problem = toolkit.problem or "nothing in it states a version"
        root, last = posixpath.split(value.rstrip("/"))
        if last in {"bin", "lib", "include"}:
            message = f"{name}={value} is the {last} folder, not the root of a Toolkit"
            fix = Fix(f"Set {name} to {root}", (f"export {name}={root}",))
        else:
            message, fix = f"{name}={value} is no Toolkit: {problem}", _use(toolkits)
        yield Finding(message, where=name, fix=fix)


def _is_toolkit(tree: Toolkit) -> bool:
    """A tree with a number or with the runtime; one without mcc has only that one fault."""
    return tree.version is not None or any(n.startswith("libmusart.so") for n in tree.libraries)


@check("musa-path-contradicts-musa-home", layer=Layer.ENVIRONMENT, severity="warning")
def musa_path_contradicts_musa_home(
    environment: Environment, toolkit_routes: ToolkitRoutes
) -> Judgement:
    """MUSA_PATH and MUSA_HOME lead to different places.

    ## Why it matters

    torch_musa reads `MUSA_HOME` first and `MUSA_PATH` only where that is not set; other software
    may read one of them alone. Then two parts of one program use two Toolkits.

    ## How to fix

    Unset `MUSA_PATH`, or set both to the same Toolkit.

    ## Sources

    torch_musa source (2026).
    """
    home, path = environment.get("MUSA_HOME"), environment.get("MUSA_PATH")
    if not home or not path:
        return
    routes = {route.name: route for route in toolkit_routes.routes}
    by_home, by_path = routes.get("MUSA_HOME"), routes.get("MUSA_PATH")
    if by_home is None or by_path is None:
        differ = posixpath.normpath(home) != posixpath.normpath(path)
    elif by_home.version is not None and by_path.version is not None:
        differ = by_home.version != by_path.version
    else:
        differ = posixpath.normpath(by_home.target) != posixpath.normpath(by_path.target)
    if differ:
        yield Finding(
            f"MUSA_HOME={home}, but MUSA_PATH={path}",
            where="MUSA_PATH",
            fix=Fix("Unset MUSA_PATH, torch_musa takes MUSA_HOME", ("unset MUSA_PATH",)),
        )


@check("musa-home-unset", layer=Layer.ENVIRONMENT, severity="note")
def musa_home_unset(environment: Environment, toolkits: Toolkits) -> Judgement:
    """Several Toolkits are installed, and MUSA_HOME does not say which one to use.

    ## Why it matters

    Without `MUSA_HOME`, software takes the Toolkit of the `mcc` on PATH, else the one that
    `/usr/local/musa` leads to. What that is changes with the next package that is installed.

    ## How to fix

    Set `MUSA_HOME` to the Toolkit that the installed torch_musa was built for.

    ## Sources

    torch_musa source; musatop (2026).
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    if len(toolkits.installed) > 1 and _home(environment) is None:
        yield Finding(
            f"{len(toolkits.installed)} Toolkits are installed ({toolkits}), MUSA_HOME is not set",
            where="MUSA_HOME",
            fix=_use(toolkits),
        )


def _taken(routes: ToolkitRoutes) -> tuple[Route, ...]:
    """The routes that something follows here.

    MUSA_PATH counts without MUSA_HOME only, and the link /usr/local/musa where nothing else names
    a Toolkit. The wheel is judged against the Toolkit in use by the family `pairing`.
    """
    names = {route.name for route in routes.routes}
    passed = {"wheel"}
    if "MUSA_HOME" in names:
        passed.add("MUSA_PATH")
    if names & {*HOMES, "mcc on PATH"}:
        passed.add("/usr/local/musa")
    return tuple(route for route in routes.routes if route.name not in passed)


def _agree(toolkit: Toolkit | Absent | Unknown) -> Fix:
    if isinstance(toolkit, Toolkit):
        return Fix(
            f"Let all routes lead to one Toolkit, {toolkit} being the one in use; if it is the"
            " wrong one, set MUSA_HOME to the other and do the same with its folders",
            exports(toolkit),
        )
    return Fix("Let MUSA_HOME, PATH and LD_LIBRARY_PATH all lead to one Toolkit")


@check("toolkit-generations-mixed", layer=Layer.ENVIRONMENT, severity="error")
def toolkit_generations_mixed(
    toolkit_routes: ToolkitRoutes, toolkit: Toolkit | Absent | Unknown
) -> Judgement:
    """MUSA_HOME, PATH and the loader lead to Toolkits of different generations.

    ## Why it matters

    Libraries of generation 4 and 5 have different names and interfaces (`libmusart.so.4`,
    `libmusart.so.5`). With the compiler of one and the libraries of another, extensions that are
    built here do not load, and torch_musa finds the wrong libraries or none.

    ## How to fix

    Choose one Toolkit, the one that the installed torch_musa was built for, and set `MUSA_HOME`,
    `PATH` and `LD_LIBRARY_PATH` to it. With a newer Toolkit the folder of its own `libmusa.so.1`
    has to come before it in `LD_LIBRARY_PATH`.

    ## Sources

    torch_musa issues 83 and 137; MUSA SDK 5.2.0 install guide (2026).
    """
    taken = ToolkitRoutes(_taken(toolkit_routes))
    if len(taken.majors) > 1:
        yield Finding(f"routes to a Toolkit disagree: {taken}", fix=_agree(toolkit))


@check("toolkit-releases-mixed", layer=Layer.ENVIRONMENT, severity="warning")
def toolkit_releases_mixed(
    toolkit_routes: ToolkitRoutes, toolkit: Toolkit | Absent | Unknown
) -> Judgement:
    """MUSA_HOME, PATH and the loader lead to different releases of one generation.

    ## Why it matters

    The libraries of one release are tested with each other. A mix of 5.1 and 5.2 packages has left
    two half-filled trees on one host.

    ## How to fix

    Set `MUSA_HOME`, `PATH` and `LD_LIBRARY_PATH` to the same Toolkit.

    ## Sources

    vllm-musa documentation (2026).
    """
    taken = ToolkitRoutes(_taken(toolkit_routes))
    if len(taken.majors) == 1 and len(taken.versions) > 1:
        yield Finding(f"routes to a Toolkit disagree: {taken}", fix=_agree(toolkit))


def _usable(entries: tuple[SearchEntry, ...]) -> tuple[SearchEntry, ...]:
    return tuple(entry for entry in entries if entry.state == "ok")


@check("library-path-has-two-toolkits", layer=Layer.ENVIRONMENT, severity="warning")
def library_path_has_two_toolkits(
    environment: Environment, toolkit: Toolkit | Absent | Unknown
) -> Judgement:
    """LD_LIBRARY_PATH lists the folders of two MUSA Toolkits.

    ## Why it matters

    The loader takes each library from the first folder that has it. Libraries that only the second
    one has come from there, so that one process uses parts of two Toolkits.

    ## How to fix

    Keep the folders of one Toolkit in `LD_LIBRARY_PATH`. Correct the line that sets it: it often
    grows by `export LD_LIBRARY_PATH=...:$LD_LIBRARY_PATH` in several profiles.

    ## Sources

    brilliantrough/agent-skills (2026); vllm-musa documentation (2026).
    """
    entries = [entry for entry in _usable(environment.library_path) if entry.toolkit is not None]
    versions = dict.fromkeys(entry.toolkit for entry in entries)
    if len(versions) > 1:
        in_use = toolkit.version if isinstance(toolkit, Toolkit) else None
        kept = in_use if in_use in versions else entries[0].toolkit
        why = "is the one in use" if kept == in_use else "comes first"
        others = tuple(entry for entry in entries if entry.toolkit != kept)
        listed = ", ".join(f"{entry.path} (Toolkit {entry.toolkit})" for entry in entries)
        yield Finding(
            f"LD_LIBRARY_PATH lists {len(versions)} Toolkits: {listed}",
            where="LD_LIBRARY_PATH",
            fix=Fix(
                f"Keep one of them; the command keeps {kept}, which {why}",
                without(environment.library_path, others),
            ),
        )


@check("library-path-has-empty-element", layer=Layer.ENVIRONMENT, severity="warning")
def library_path_has_empty_element(environment: Environment) -> Judgement:
    """LD_LIBRARY_PATH has an empty element, which means the current directory.

    ## Why it matters

    For the loader an empty element (`::`, or a colon at the beginning or the end) is the folder in
    which a program happens to be started. Libraries that lie there are taken before the system's:
    the same command then works in one folder and fails in another.

    ## How to fix

    Append with `${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`, which adds the colon only where there is
    something to add.

    ## Sources

    ld.so(8); torch_musa issue 118 (2025).
    """
    empty = tuple(entry for entry in environment.library_path if entry.state == "empty")
    # A variable that is set to nothing at all is ignored by the loader.
    if empty and environment.get("LD_LIBRARY_PATH"):
        yield Finding(
            f"LD_LIBRARY_PATH={environment.get('LD_LIBRARY_PATH')} has an empty element",
            where="LD_LIBRARY_PATH",
            fix=Fix(
                "Take the empty element out",
                without(environment.library_path, empty),
            ),
        )


@check("library-path-entry-missing", layer=Layer.ENVIRONMENT, severity="note")
def library_path_entry_missing(environment: Environment) -> Judgement:
    """LD_LIBRARY_PATH names a folder that is not there.

    ## Why it matters

    The loader steps over it. It is often the trace of a Toolkit that was removed or renamed, or of
    a spelling mistake, and the libraries that it was to give are then missing.

    ## How to fix

    Correct the entry, or take it out.

    ## Sources

    ld.so(8).
    """
    for entry in environment.library_path:
        if entry.state in {"missing", "not a folder"}:
            state = "is not there" if entry.state == "missing" else "is not a folder"
            yield Finding(
                f"{entry.path} in LD_LIBRARY_PATH {state}",
                where="LD_LIBRARY_PATH",
                fix=Fix("Take it out", without(environment.library_path, (entry,))),
            )


def _has(entry: SearchEntry, stem: str) -> bool:
    return any(name.startswith(f"{stem}.so") for name in entry.libraries)


@check("toolkit-hides-driver-library", layer=Layer.ENVIRONMENT, severity="warning")
def toolkit_hides_driver_library(environment: Environment) -> Judgement:
    """A Toolkit's libmusa comes before the driver's own in LD_LIBRARY_PATH.

    ## Why it matters

    `libmusa.so.1` of every SDK has the same name, so that a wrong one loads without a word. Where a
    folder with the matching `libmusa` is in `LD_LIBRARY_PATH`, it has to come before a Toolkit that
    brings another one.

    ## How to fix

    Put the folder with the driver's `libmusa` before the Toolkit's `lib`.

    ## Sources

    brilliantrough/agent-skills (2026).
    """
    entries = _usable(environment.library_path)
    holders = [entry for entry in entries if _has(entry, "libmusa")]
    of_toolkit = [entry for entry in holders if _has(entry, "libmusart")]
    of_driver = [entry for entry in holders if not _has(entry, "libmusart")]
    if of_toolkit and of_driver and holders[0] == of_toolkit[0]:
        rest = [entry for entry in environment.library_path if entry not in of_driver]
        order = ":".join(entry.path for entry in (*of_driver, *rest) if entry.path)
        yield Finding(
            f"{of_toolkit[0].path} brings a libmusa and comes before {of_driver[0].path}"
            " in LD_LIBRARY_PATH",
            where="LD_LIBRARY_PATH",
            fix=Fix(
                f"Put {of_driver[0].path} first, if its libmusa is the one that fits",
                (f'export LD_LIBRARY_PATH="{order}"',),
            ),
        )


@check("driver-folder-of-other-release", layer=Layer.ENVIRONMENT, severity="warning")
def driver_folder_of_other_release(
    driver_folders: DriverFolders, user_driver: LoadableLibrary, toolkit: Toolkit
) -> Judgement:
    """The libmusa that would be loaded belongs to another release than the Toolkit in use.

    ## Why it matters

    `libmusa.so.1` has the same name in every SDK release, so that the wrong one loads without a
    word. Where each release has a folder for its own, the search path of one is easily left behind
    when `MUSA_HOME` moves to the other.

    ## How to fix

    Put the folder of the `libmusa` that belongs to the Toolkit first in `LD_LIBRARY_PATH`, and name
    the same one in `MUSA_DRIVER_LIB_DIR` where scripts read that.

    ## Symptoms

    - `system has unsupported display driver / musa driver combination`

    ## Sources

    brilliantrough/agent-skills (2026), whose folders are `runtime-deps/X.Y.Z/lib`.
    """
    places = {posixpath.dirname(path) for path in (user_driver.path, user_driver.real_path)}
    taken = next((folder for folder in driver_folders.folders if folder.path in places), None)
    if taken is None or taken.version is None:
        return
    number = toolkit.version
    if number is None:
        yield Unknown(f"a number is missing: {toolkit}")
    elif not taken.version <= number <= taken.version:
        own = driver_folders.of_release(number)
        yield Finding(
            f"{user_driver} is of SDK {taken.version}, in use is {toolkit}",
            where="LD_LIBRARY_PATH",
            fix=Fix(f"Take the Toolkit's own, in {own.path}", exports(toolkit))
            if own
            else Fix(
                f"Take {taken.path} out of LD_LIBRARY_PATH, or use the Toolkit {taken.version}"
            ),
        )


@check("path-without-toolkit", layer=Layer.ENVIRONMENT, severity="note")
def path_without_toolkit(environment: Environment, toolkit: Toolkit) -> Judgement:
    """PATH does not have the bin folder of the Toolkit in use.

    ## Why it matters

    PyTorch runs without it. `mcc`, `musaInfo` and `musa_version_query` are not found by name, and
    software that looks for its Toolkit by `mcc` on PATH finds none.

    ## How to fix

    Put the `bin` folder of the Toolkit into `PATH`.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    folder = f"{toolkit.root}/bin"
    entries = _usable(environment.path)
    if not any(entry.real_path == folder or entry.toolkit is not None for entry in entries):
        yield Finding(
            f"{folder} is not in PATH",
            where="PATH",
            fix=Fix("Add it", (f'export PATH="{folder}:$PATH"',)),
        )


def _mask(environment: Environment) -> tuple[str, ...] | None:
    """The elements of MUSA_VISIBLE_DEVICES, ``None`` where it is not set."""
    value = environment.get("MUSA_VISIBLE_DEVICES")
    if value is None:
        return None
    return tuple(part.strip() for part in value.split(",")) if value.strip() else ()


def _indices(mask: tuple[str, ...]) -> tuple[int, ...] | None:
    """The elements as numbers, ``None`` where one is no number."""
    if all(INDEX.fullmatch(part) for part in mask):
        return tuple(int(part) for part in mask)
    return None


SHOW_ALL = Fix(
    "Unset it to see every card, or list indices, 0,1 for the first two",
    ("unset MUSA_VISIBLE_DEVICES",),
)


@check("visible-devices-not-a-list", layer=Layer.ENVIRONMENT, severity="warning")
def visible_devices_not_a_list(environment: Environment) -> Judgement:
    """MUSA_VISIBLE_DEVICES is not a list of card indices.

    ## Why it matters

    The variable takes indices, `0,1`. Values such as `all` or `void` belong to
    `MTHREADS_VISIBLE_DEVICES`, which the container runtime reads; `MUSA_VISIBLE_DEVICES=all`, baked
    into an image, broke software that read it.

    ## How to fix

    Unset it: all cards are visible by default. To give a container its cards, set
    `MTHREADS_VISIBLE_DEVICES` when it is started.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); vllm-musa PR 105 (2026-07-16).
    """
    value = environment.get("MUSA_VISIBLE_DEVICES")
    mask = _mask(environment) or ()
    wrong = [part for part in mask if not INDEX.fullmatch(part)]
    if any(not OTHER_DEVICE.fullmatch(part) for part in wrong):
        yield Finding(
            f"MUSA_VISIBLE_DEVICES={value} is not a list of indices",
            where="MUSA_VISIBLE_DEVICES",
            fix=SHOW_ALL,
        )
    elif wrong:
        yield Unknown(
            f"MUSA_VISIBLE_DEVICES={value}: the vendor documents indices only, whether {wrong[0]}"
            " is understood is not known"
        )


@check("visible-devices-hide-all", layer=Layer.ENVIRONMENT, severity="error")
def visible_devices_hide_all(environment: Environment, gpus: Gpus | Unknown) -> Judgement:
    """MUSA_VISIBLE_DEVICES leaves no card visible.

    ## Why it matters

    An empty value, or one with indices of cards that are not there, hides every card from the
    process. `torch.musa.is_available()` is then False.

    ## How to fix

    Unset the variable, or list indices below the number of cards. It is read once, before torch is
    imported, so set it before Python starts.

    ## Symptoms

    - `No MUSA GPUs are available`

    ## Sources

    MUSA SDK 5.2.0 install guide; torch_musa source (2026).
    """
    mask = _mask(environment)
    indices = None if mask is None else _indices(mask)
    if indices is None:
        return
    if not indices:
        why = "is empty"
    elif isinstance(gpus, Unknown):
        yield gpus
        return
    elif not gpus.counted:
        yield Unknown(f"how many cards there are is not shown: {gpus}")
        return
    elif any(index < len(gpus.cards) for index in indices):
        return
    else:
        why = f"names none of the {len(gpus.cards)} cards (0 to {len(gpus.cards) - 1})"
    yield Finding(
        f"MUSA_VISIBLE_DEVICES={environment.get('MUSA_VISIBLE_DEVICES')} {why}",
        where="MUSA_VISIBLE_DEVICES",
        fix=SHOW_ALL,
    )


@check("visible-devices-missing", layer=Layer.ENVIRONMENT, severity="warning", said=by_message)
def visible_devices_missing(environment: Environment, gpus: Gpus | Unknown) -> Judgement:
    """MUSA_VISIBLE_DEVICES names a card that is not there.

    ## Why it matters

    A process that counts on all the cards that it asked for gets fewer of them.

    ## How to fix

    List only indices below the number of cards.

    ## Symptoms

    - `GPU id 1 is not valid under MUSA_VISIBLE_DEVICES=0`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    indices = _indices(_mask(environment) or ()) or ()
    if isinstance(gpus, Unknown):
        if indices:
            yield gpus
        return
    if indices and not gpus.counted:
        yield Unknown(f"how many cards there are is not shown: {gpus}")
        return
    count = len(gpus.cards)
    there = [index for index in indices if index < count]
    missing = [str(index) for index in indices if index >= count]
    if there and missing:
        yield Finding(
            f"MUSA_VISIBLE_DEVICES={environment.get('MUSA_VISIBLE_DEVICES')} names"
            f" {', '.join(missing)}, but the cards are 0 to {count - 1} ({gpus})",
            where="MUSA_VISIBLE_DEVICES",
            fix=Fix(
                "Take the missing ones out",
                (f"export MUSA_VISIBLE_DEVICES={','.join(map(str, there))}",),
            ),
        )


@check("cuda-visible-devices-without-effect", layer=Layer.ENVIRONMENT, severity="note")
def cuda_visible_devices_without_effect(
    environment: Environment, gpus: Gpus | Unknown
) -> Judgement:
    """CUDA_VISIBLE_DEVICES is set, MUSA_VISIBLE_DEVICES is not.

    ## Why it matters

    MUSA does not read `CUDA_VISIBLE_DEVICES`: every process sees every card, and several may use
    card 0 at once. Only torchada carries the one over into the other.

    ## How to fix

    Set `MUSA_VISIBLE_DEVICES` to the same list.

    ## Sources

    torchada; brilliantrough/agent-skills; Miles FSDP2 report (2026).
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None or environment.get("MUSA_VISIBLE_DEVICES") is not None:
        return
    if isinstance(gpus, Unknown):
        yield gpus
    else:
        listed = bool(value) and all(INDEX.fullmatch(part.strip()) for part in value.split(","))
        commands = (f"export MUSA_VISIBLE_DEVICES={value}",) if listed else ()
        yield Finding(
            f"CUDA_VISIBLE_DEVICES={value} does not restrict the {len(gpus.cards)} MUSA cards",
            where="CUDA_VISIBLE_DEVICES",
            fix=Fix("Set MUSA_VISIBLE_DEVICES instead", commands),
        )


@check("container-devices-outside-container", layer=Layer.ENVIRONMENT, severity="note")
def container_devices_outside_container(
    environment: Environment, container: Container | Absent | Unknown
) -> Judgement:
    """MTHREADS_VISIBLE_DEVICES is set outside of a container.

    ## Why it matters

    Only the container runtime reads it, when it starts a container. On a host it restricts nothing.

    ## How to fix

    To restrict a process, set `MUSA_VISIBLE_DEVICES`.

    ## Sources

    MUSA SDK 5.2.0 container guide (2026).
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    value = environment.get("MTHREADS_VISIBLE_DEVICES")
    if value is None:
        return
    if isinstance(container, Unknown):
        yield container
    elif isinstance(container, Absent):
        yield Finding(
            f"MTHREADS_VISIBLE_DEVICES={value} has no effect here: {container}",
            where="MTHREADS_VISIBLE_DEVICES",
            fix=Fix("Unset it, or use MUSA_VISIBLE_DEVICES", ("unset MTHREADS_VISIBLE_DEVICES",)),
        )


@check("container-without-compute", layer=Layer.ENVIRONMENT, severity="warning")
def container_without_compute(
    environment: Environment, container: Container | Unknown
) -> Judgement:
    """MTHREADS_DRIVER_CAPABILITIES does not ask for compute.

    ## Why it matters

    The container runtime gives a container only the driver files of the capabilities asked for.
    PyTorch needs `compute`.

    ## How to fix

    Start the container with `--env MTHREADS_DRIVER_CAPABILITIES=compute,utility`.

    ## Sources

    MUSA SDK 5.2.0 container guide (2026).
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    value = environment.get("MTHREADS_DRIVER_CAPABILITIES")
    if value is None:
        return
    asked = {part.strip() for part in value.split(",")}
    if isinstance(container, Unknown):
        yield container
    elif "all" in asked:
        yield Unknown("MTHREADS_DRIVER_CAPABILITIES=all: the vendor documents no such value")
    elif "compute" not in asked:
        yield Finding(
            f"MTHREADS_DRIVER_CAPABILITIES={value} in this {container.runtime or 'container'}",
            where="MTHREADS_DRIVER_CAPABILITIES",
            fix=Fix(
                "Start the container anew with --env MTHREADS_DRIVER_CAPABILITIES=compute,utility"
            ),
        )


def _keys(configuration: str) -> list[str]:
    """The keys of ``key:value,key:[a:1,b:2]``."""
    flat = re.sub(r"\[[^\]]*\]", "", configuration)
    return [key for part in flat.split(",") if (key := part.partition(":")[0].strip())]


@check("alloc-conf-unknown-key", layer=Layer.ENVIRONMENT, severity="error", said=by_message)
def alloc_conf_unknown_key(environment: Environment) -> Judgement:
    """PYTORCH_MUSA_ALLOC_CONF has a key that torch_musa does not know.

    ## Why it matters

    torch_musa raises an error over an unknown key when it first allocates memory. Keys that only
    CUDA's allocator has are the usual ones.

    ## How to fix

    Take the key out of the value.

    ## Symptoms

    - `Unrecognized CachingAllocator option`

    ## Sources

    torch_musa source, 8b583b3 (2026-01).
    """
    value = environment.get("PYTORCH_MUSA_ALLOC_CONF")
    if not value:
        return
    known = alloc_conf_keys()
    exact = {row.key for row in known}
    prefixes = tuple(row.key[:-1] for row in known if row.key.endswith("*"))
    unknown = [key for key in _keys(value) if key not in exact and not key.startswith(prefixes)]
    if unknown:
        yield Finding(
            f"PYTORCH_MUSA_ALLOC_CONF={value} has {', '.join(unknown)}, which torch_musa does not"
            f" know (its keys as of {dated([row.origin for row in known])}:"
            f" {', '.join(sorted(exact))})",
            where="PYTORCH_MUSA_ALLOC_CONF",
            fix=Fix(f"Take {', '.join(unknown)} out of the value"),
        )


@check("cuda-alloc-conf-without-effect", layer=Layer.ENVIRONMENT, severity="note")
def cuda_alloc_conf_without_effect(environment: Environment, gpus: Gpus | Unknown) -> Judgement:
    """PYTORCH_CUDA_ALLOC_CONF has no effect on MUSA.

    ## Why it matters

    The allocator of torch_musa reads `PYTORCH_MUSA_ALLOC_CONF`. Settings under the other name are
    ignored without a word.

    ## How to fix

    Move the value to `PYTORCH_MUSA_ALLOC_CONF`, without the keys that only CUDA's allocator has.

    ## Sources

    Public training scripts (2026); torch_musa source.
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    value = environment.get("PYTORCH_CUDA_ALLOC_CONF")
    if not value:
        return
    if isinstance(gpus, Unknown):
        yield gpus
    else:
        yield Finding(
            f"PYTORCH_CUDA_ALLOC_CONF={value} does nothing for {', '.join(gpus.products)}",
            where="PYTORCH_CUDA_ALLOC_CONF",
            fix=Fix("Set PYTORCH_MUSA_ALLOC_CONF, if the setting is wanted"),
        )


@check("torch-autoload-off", layer=Layer.ENVIRONMENT, severity="note")
def torch_autoload_off(
    environment: Environment, torch_musa_build: TorchMusaBuild | Unknown
) -> Judgement:
    """TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from importing torch_musa.

    ## Why it matters

    `import torch` alone then has no `torch.musa`, and code that relies on it fails or uses the CPU.

    ## How to fix

    Unset the variable, or write `import torch_musa` after `import torch`.

    ## Sources

    torch_musa source (2026).
    """
    if environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
        return
    if isinstance(torch_musa_build, Unknown):
        yield torch_musa_build
    elif torch_musa_build.autoloads:
        yield Finding(
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0, so `import torch` leaves torch_musa"
            f" {torch_musa_build.version} out",
            where="TORCH_DEVICE_BACKEND_AUTOLOAD",
            fix=Fix(
                "Unset it, or import torch_musa by name", ("unset TORCH_DEVICE_BACKEND_AUTOLOAD",)
            ),
        )


@check("slime-expandable-segments-invalid", layer=Layer.ENVIRONMENT, severity="warning")
def slime_expandable_segments_invalid(environment: Environment) -> Judgement:
    """SLIME_ENABLE_EXPANDABLE_SEGMENTS is neither 0 nor 1.

    ## Why it matters

    slime accepts these two values only.

    ## How to fix

    Set it to `0` or `1`, or unset it.

    ## Sources

    slime PR 2216 (2026-08-20).
    """
    value = environment.get("SLIME_ENABLE_EXPANDABLE_SEGMENTS")
    if value is not None and value not in {"0", "1"}:
        yield Finding(
            f"SLIME_ENABLE_EXPANDABLE_SEGMENTS={value!r}, slime takes 0 or 1 only",
            where="SLIME_ENABLE_EXPANDABLE_SEGMENTS",
            fix=Fix("Set it to 0 or 1", ("export SLIME_ENABLE_EXPANDABLE_SEGMENTS=1",)),
        )


@check("slime-accelerator-contradicts", layer=Layer.ENVIRONMENT, severity="note")
def slime_accelerator_contradicts(
    environment: Environment, gpus: Gpus | Absent | Unknown
) -> Judgement:
    """Variables make slime choose an accelerator that this host does not have.

    ## Why it matters

    slime takes `SLIME_ACCELERATOR` first, then MUSA where `MUSA_VISIBLE_DEVICES` or
    `MUSA_PATCH_PATH` is set, and only then looks at what is there. A variable left in a profile
    changes the choice.

    ## How to fix

    Unset the variable that does not fit this host.

    ## Sources

    slime PR 2216 (2026-08-20).
    """
    chosen = environment.get("SLIME_ACCELERATOR")
    hints = [
        n for n in ("MUSA_VISIBLE_DEVICES", "MUSA_PATCH_PATH") if environment.get(n) is not None
    ]
    if isinstance(gpus, Unknown):
        if chosen or hints:
            yield gpus
        return
    if isinstance(gpus, Gpus):
        if chosen and chosen.lower() != "musa":
            yield Finding(
                f"SLIME_ACCELERATOR={chosen}, but this host has {gpus}",
                where="SLIME_ACCELERATOR",
                fix=Fix("Unset it, or set it to musa", ("unset SLIME_ACCELERATOR",)),
            )
        return
    if chosen and chosen.lower() == "musa":
        names = ["SLIME_ACCELERATOR"]
    else:
        names = [] if chosen else hints
    if names:
        yield Finding(
            f"{' and '.join(names)} make slime choose MUSA: {gpus}",
            where=names[0],
            fix=Fix("Unset what does not fit this host", (f"unset {' '.join(names)}",)),
        )


CRASHING_MCCL = "2.1.5"


@check("mccl-algo-set", layer=Layer.ENVIRONMENT, severity="warning")
def mccl_algo_set(environment: Environment, mccl: ComponentLibrary | Absent | Unknown) -> Judgement:
    """MCCL_ALGO forces an algorithm, which crashes some releases of MCCL.

    ## Why it matters

    With `MCCL_ALGO=Ring` or `Tree`, 24 of 24 runs on MCCL 2.1.5 ended in a segmentation fault. Left
    to itself MCCL chose without fault; `MCCL_PROTO` did no harm.

    ## How to fix

    Unset the variable.

    ## Symptoms

    - `Segmentation fault` in the first collective operation

    ## Sources

    S5000 measurements with Toolkit 4.3.5 (2026-07).
    """
    value = environment.get("MCCL_ALGO")
    if value is not None:
        here = f"this host has {mccl}" if isinstance(mccl, ComponentLibrary) else str(mccl)
        yield Finding(
            f"MCCL_ALGO={value}: seen to crash every run on MCCL {CRASHING_MCCL}; {here}",
            where="MCCL_ALGO",
            fix=Fix("Unset it", ("unset MCCL_ALGO",)),
        )


@check("nccl-variables-without-effect", layer=Layer.ENVIRONMENT, severity="note")
def nccl_variables_without_effect(environment: Environment, gpus: Gpus | Unknown) -> Judgement:
    """NCCL variables are set, but MCCL reads its own.

    ## Why it matters

    MCCL's variables begin with `MCCL_`. What is set as `NCCL_*` (an interface, a level of debug
    output) most likely does nothing here.

    ## How to fix

    Set the same variables with `MCCL_` in front, where MCCL has them.

    ## Sources

    The names in the vendor's debugging guide (2026); that NCCL's are not read is inferred.
    """
    if environment.partial:
        yield Unknown("which other variables are set")
        return
    names = [name for name, _ in environment.starting("NCCL_")]
    if not names or environment.starting("MCCL_"):
        return
    if isinstance(gpus, Unknown):
        yield gpus
    else:
        yield Finding(
            f"{', '.join(names)} set, but no MCCL variable, on a host with {gpus}",
            where=names[0],
            fix=Fix("Set the MCCL_ variables of the same meaning, if the settings are wanted"),
        )


@check("op-debug-lists-exclude-each-other", layer=Layer.ENVIRONMENT, severity="warning")
def op_debug_lists_exclude_each_other(environment: Environment) -> Judgement:
    """TORCH_MUSA_OP_DEBUG_LIST and TORCH_MUSA_OP_DEBUG_BLACK_LIST are both set.

    ## Why it matters

    torch_musa takes one of them: a list of the operators to record, or of those to leave out.

    ## How to fix

    Unset one.

    ## Sources

    torch_musa source (2026).
    """
    chosen = environment.get("TORCH_MUSA_OP_DEBUG_LIST")
    left_out = environment.get("TORCH_MUSA_OP_DEBUG_BLACK_LIST")
    if chosen and left_out:
        yield Finding(
            f"TORCH_MUSA_OP_DEBUG_LIST={chosen} and TORCH_MUSA_OP_DEBUG_BLACK_LIST={left_out}",
            where="TORCH_MUSA_OP_DEBUG_BLACK_LIST",
            fix=Fix("Unset one of them", ("unset TORCH_MUSA_OP_DEBUG_BLACK_LIST",)),
        )


@check("gpu-library-preloaded", layer=Layer.ENVIRONMENT, severity="note")
def gpu_library_preloaded(environment: Environment) -> Judgement:
    """LD_PRELOAD puts a GPU library into every process.

    ## Why it matters

    A preloaded library takes the place of the one that torch_musa or a tool would find, in every
    program that starts in this shell.

    ## How to fix

    Unset `LD_PRELOAD`, or set it for the one command that needs it.

    ## Sources

    ld.so(8).
    """
    value = environment.get("LD_PRELOAD") or ""
    for path in re.split(r"[:\s]+", value):
        if GPU_LIBRARY.fullmatch(posixpath.basename(path)):
            yield Finding(
                f"LD_PRELOAD={value} loads {path} into every process",
                where="LD_PRELOAD",
                fix=Fix("Unset it, or set it for the one command only", ("unset LD_PRELOAD",)),
            )
