"""The checks of the environment: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    CARDS,
    DOCKER,
    HEALTHY,
    MCCL,
    S80,
    TOOLKIT,
    driver_folders,
    gpus,
    judged,
    library,
    toolkit,
)
from given_torch import (
    WHOLE,
    cannot_tell,
    entry,
    environment,
    finds,
    fix,
    route,
    skips,
    versionless,
    wheel,
)

from musadoctor.api import (
    Absent,
    Check,
    DriverFolder,
    DriverFolders,
    Environment,
    LoadableLibrary,
    Route,
    SearchEntry,
    Toolkit,
    ToolkitRoutes,
    Toolkits,
    Unknown,
)
from musadoctor_checks import environment as family

UNSEEN = Unknown("not found out")
NO_GPU = Absent("no GPU of vendor 1ed5")
OLD = toolkit("4.3.5")
BOTH = Toolkits((TOOLKIT, OLD), "/usr/local")
BARE = Toolkit("/opt/x", None, "nothing states it", (), (), "no bin/mcc, no lib folder")
ALL = [check for check in vars(family).values() if isinstance(check, Check)]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_healthy_host_gives_nothing(check: Check) -> None:
    result = judged(check, **WHOLE)
    expected = {"path-without-toolkit": "failed", "container-without-compute": "skipped"}
    assert result.status == expected.get(check.id, "passed"), result


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_what_is_not_set_is_not_judged(check: Check) -> None:
    """Whatever else could not be found out: only the routes and the Toolkit are asked for."""
    unseen: dict[str, object] = dict.fromkeys(WHOLE, UNSEEN)
    unseen["environment"] = environment()
    needs_more = {
        *("musa-path-contradicts-musa-home", "toolkit-generations-mixed"),
        *("toolkit-releases-mixed", "musa-home-unset", "path-without-toolkit"),
        "driver-folder-of-other-release",
    }
    expected = "unknown" if check.id in needs_more else "passed"
    assert judged(check, **unseen).status == expected


@pytest.mark.parametrize(
    ("variables", "tree", "message"),
    [
        (
            {"MUSA_HOME": "/opt/gone"},
            Absent("MUSA_HOME is /opt/gone, which is not there"),
            "no Toolkit by MUSA_HOME=/opt/gone: MUSA_HOME is /opt/gone, which is not there",
        ),
        (
            {"MUSA_HOME": "/opt/x"},
            BARE,
            "MUSA_HOME=/opt/x is no Toolkit: no bin/mcc, no lib folder",
        ),
        (
            {"MUSA_PATH": "/opt/x"},
            BARE._replace(problem=None),
            "MUSA_PATH=/opt/x is no Toolkit: nothing in it states a version",
        ),
        (
            {"MUSA_HOME": "/usr/local/musa/bin/"},
            BARE,
            "MUSA_HOME=/usr/local/musa/bin/ is the bin folder, not the root of a Toolkit",
        ),
    ],
)
def test_musa_home_is_wrong(variables: dict[str, str], tree: object, message: str) -> None:
    found = finds(family.musa_home_wrong, environment=environment(**variables), toolkit=tree)
    assert found == (message,)


@pytest.mark.parametrize(
    "tree", [TOOLKIT, TOOLKIT._replace(libraries=()), versionless(), UNSEEN, Absent("nowhere")]
)
def test_musa_home_is_not_wrong_where_it_is_not_set(tree: object) -> None:
    assert finds(family.musa_home_wrong, environment=environment(MUSA_HOME=""), toolkit=tree) == ()


def test_musa_home_is_right_where_it_leads_to_a_toolkit() -> None:
    for tree in (TOOLKIT, TOOLKIT._replace(libraries=()), versionless()):
        at = environment(MUSA_HOME=tree.root)
        assert finds(family.musa_home_wrong, environment=at, toolkit=tree) == ()
    at = environment(MUSA_HOME="/x")
    assert cannot_tell(family.musa_home_wrong, environment=at, toolkit=UNSEEN) == UNSEEN.reason


@pytest.mark.parametrize(
    ("value", "installed", "text", "commands"),
    [
        (
            "/opt/x",
            HEALTHY["toolkits"],
            "Set MUSA_HOME to /usr/local/musa-5.2.0",
            ("export MUSA_HOME=/usr/local/musa-5.2.0",),
        ),
        (
            "/opt/x",
            BOTH,
            (
                "Set MUSA_HOME to one of the installed Toolkits: /usr/local/musa-5.2.0,"
                " /usr/local/musa-4.3.5; the command takes the one that fits the installed torch_musa"
            ),
            ('eval "$(musadoctor env)"',),
        ),
        (
            "/opt/x",
            UNSEEN,
            "Unset it, or install the Toolkit that it is to name",
            ("unset MUSA_HOME MUSA_PATH",),
        ),
        (
            "/opt/musa/bin",
            BOTH,
            "Set MUSA_HOME to /opt/musa",
            ("export MUSA_HOME=/opt/musa",),
        ),
    ],
)
def test_the_fix_of_musa_home_is_right_for_the_host(
    value: str, installed: object, text: str, commands: tuple[str, ...]
) -> None:
    at = environment(MUSA_HOME=value)
    found = fix(family.musa_home_wrong, environment=at, toolkit=BARE, toolkits=installed)
    assert found == (text, commands, False)


@pytest.mark.parametrize(
    ("routes", "fires"),
    [
        ((), True),
        ((route("MUSA_HOME", "5.2.0"), route("MUSA_PATH", "4.3.5")), True),
        ((route("MUSA_HOME", "5.2.0"), route("MUSA_PATH", "5.2.0")), False),
        ((route("MUSA_HOME", "5.2.0"), route("MUSA_PATH", "", "/b")), True),
        ((route("MUSA_HOME", "", "/a"), route("MUSA_PATH", "5.2.0", "/a/")), False),
        ((route("MUSA_HOME", "5.2.0"),), True),
    ],
)
def test_musa_path_contradicts_musa_home(routes: tuple[Route, ...], *, fires: bool) -> None:
    check = family.musa_path_contradicts_musa_home
    at = environment(MUSA_HOME="/a", MUSA_PATH="/b")
    found = finds(check, environment=at, toolkit_routes=ToolkitRoutes(routes))
    assert found == (("MUSA_HOME=/a, but MUSA_PATH=/b",) if fires else ())


def test_one_of_the_two_contradicts_nothing() -> None:
    check = family.musa_path_contradicts_musa_home
    nowhere = ToolkitRoutes(())
    assert finds(check, environment=environment(MUSA_HOME="/a"), toolkit_routes=nowhere) == ()
    assert finds(check, environment=environment(MUSA_PATH="/a"), toolkit_routes=nowhere) == ()
    same = environment(MUSA_HOME="/a/", MUSA_PATH="/a")
    assert finds(check, environment=same, toolkit_routes=nowhere) == ()


def test_musa_home_is_unset_with_several_toolkits() -> None:
    check = family.musa_home_unset
    assert finds(check, toolkits=BOTH) == (
        (
            "2 Toolkits are installed (5.2.0 in /usr/local/musa-5.2.0, 4.3.5 in /usr/local/musa-4.3.5),"
            " MUSA_HOME is not set"
        ),
    )
    assert finds(check) == ()
    assert finds(check, toolkits=BOTH, environment=environment(MUSA_PATH="/a")) == ()
    assert skips(check, toolkits=Absent("none"))


GENERATIONS = family.toolkit_generations_mixed
RELEASES = family.toolkit_releases_mixed


@pytest.mark.parametrize(
    ("routes", "generations", "releases"),
    [
        ((route("MUSA_HOME", "5.2.0"), route("loader", "4.3.5")), True, False),
        ((route("MUSA_HOME", "5.2.0"), route("loader", "4")), True, False),
        ((route("MUSA_HOME", "5.2.0"), route("loader", "5")), False, False),
        ((route("MUSA_HOME", "5.2.0"), route("mcc on PATH", "5.1.0")), False, True),
        # Nothing follows these where something else names a Toolkit.
        ((route("MUSA_HOME", "5.2.0"), route("/usr/local/musa", "4.3.5")), False, False),
        ((route("MUSA_HOME", "5.2.0"), route("MUSA_PATH", "4.3.5")), False, False),
        ((route("mcc on PATH", "5.2.0"), route("/usr/local/musa", "5.1.0")), False, False),
        ((route("loader", "5.2.0"), route("/usr/local/musa", "4.3.5")), True, False),
        ((route("loader", "5.2.0"), route("MUSA_PATH", "4.3.5")), True, False),
        # The wheel is compared by the family pairing.
        ((route("MUSA_HOME", "5.2.0"), route("wheel", "4.3.5")), False, False),
        ((route("MUSA_HOME", "", "/opt/x"), route("loader", "")), False, False),
        ((), False, False),
    ],
)
def test_routes_to_a_toolkit(
    routes: tuple[Route, ...], *, generations: bool, releases: bool
) -> None:
    taken = ToolkitRoutes(routes)
    assert bool(finds(GENERATIONS, toolkit_routes=taken)) == generations
    assert bool(finds(RELEASES, toolkit_routes=taken)) == releases


def test_routes_are_named() -> None:
    mixed = ToolkitRoutes((route("MUSA_HOME", "5.2.0"), route("loader", "4", "/l/libmusart.so.4")))
    assert finds(GENERATIONS, toolkit_routes=mixed) == (
        (
            "routes to a Toolkit disagree: MUSA_HOME -> /usr/local/musa-5.2.0 (5.2.0);"
            " loader -> /l/libmusart.so.4 (4.x)"
        ),
    )
    _, commands, _ = fix(GENERATIONS, toolkit_routes=mixed)
    assert commands == ('eval "$(musadoctor env --toolkit 5.2.0)"',)
    _, commands, _ = fix(GENERATIONS, toolkit_routes=mixed, toolkit=Absent("none"))
    assert commands == ()


NEW_LIB = entry("/usr/local/musa/lib", "libmusart.so.5", toolkit="5.2.0")
OLD_LIB = entry("/usr/local/musa-4.3.5/lib", "libmusart.so.4", toolkit="4.3.5")
GONE = entry("/opt/gone", state="missing")
EMPTY = entry("", state="empty")


def test_the_library_path_has_two_toolkits() -> None:
    check = family.library_path_has_two_toolkits
    both = environment(NEW_LIB, GONE, OLD_LIB)
    assert finds(check, environment=both) == (
        (
            "LD_LIBRARY_PATH lists 2 Toolkits: /usr/local/musa/lib (Toolkit 5.2.0),"
            " /usr/local/musa-4.3.5/lib (Toolkit 4.3.5)"
        ),
    )
    _, commands, _ = fix(check, environment=both)
    assert commands == ('export LD_LIBRARY_PATH="/usr/local/musa/lib:/opt/gone"',)
    turned = environment(OLD_LIB, NEW_LIB)
    text, commands, _ = fix(check, environment=turned)
    assert text == "Keep one of them; the command keeps 5.2.0, which is the one in use"
    assert commands == ('export LD_LIBRARY_PATH="/usr/local/musa/lib"',)
    for tree in (UNSEEN, toolkit("5.1.0"), versionless()):
        text, commands, _ = fix(check, environment=turned, toolkit=tree)
        assert text == "Keep one of them; the command keeps 4.3.5, which comes first"
        assert commands == ('export LD_LIBRARY_PATH="/usr/local/musa-4.3.5/lib"',)
    assert finds(check, environment=environment(NEW_LIB, NEW_LIB._replace(path="/m"))) == ()
    closed = OLD_LIB._replace(state="unreadable")
    assert finds(check, environment=environment(NEW_LIB, closed)) == ()


def test_the_library_path_has_an_empty_element() -> None:
    check = family.library_path_has_empty_element
    found = environment(NEW_LIB, EMPTY, LD_LIBRARY_PATH="/usr/local/musa/lib:")
    assert finds(check, environment=found) == (
        "LD_LIBRARY_PATH=/usr/local/musa/lib: has an empty element",
    )
    assert fix(check, environment=found)[1] == ('export LD_LIBRARY_PATH="/usr/local/musa/lib"',)
    only = environment(EMPTY, EMPTY, LD_LIBRARY_PATH=":")
    assert fix(check, environment=only)[1] == ("unset LD_LIBRARY_PATH",)
    assert finds(check, environment=environment(EMPTY, LD_LIBRARY_PATH="")) == ()
    assert finds(check, environment=environment(NEW_LIB, LD_LIBRARY_PATH="/m")) == ()


def test_the_library_path_has_a_missing_entry() -> None:
    check = family.library_path_entry_missing
    file = entry("/etc/passwd", state="not a folder")
    assert finds(check, environment=environment(GONE, NEW_LIB, file)) == (
        "/opt/gone in LD_LIBRARY_PATH is not there",
        "/etc/passwd in LD_LIBRARY_PATH is not a folder",
    )
    assert fix(check, environment=environment(GONE, NEW_LIB))[1] == (
        'export LD_LIBRARY_PATH="/usr/local/musa/lib"',
    )


DRIVER = entry("/opt/deps/5.2.0/lib", "libmusa.so.1")
STUBBED = entry("/usr/local/musa/lib", "libmusa.so.1.0", "libmusart.so.5", toolkit="5.2.0")


@pytest.mark.parametrize(
    ("entries", "fires"),
    [
        ((STUBBED, DRIVER), True),
        ((NEW_LIB, STUBBED, DRIVER), True),
        ((DRIVER, STUBBED), False),
        ((NEW_LIB, DRIVER), False),
        ((STUBBED, NEW_LIB), False),
        ((), False),
        ((STUBBED._replace(state="unreadable"), DRIVER), False),
    ],
)
def test_a_toolkit_hides_the_drivers_library(
    entries: tuple[SearchEntry, ...], *, fires: bool
) -> None:
    at = Environment({}, (), entries)
    found = finds(family.toolkit_hides_driver_library, environment=at)
    message = (
        "/usr/local/musa/lib brings a libmusa and comes before /opt/deps/5.2.0/lib in"
        " LD_LIBRARY_PATH"
    )
    assert found == ((message,) if fires else ())


def test_the_drivers_library_is_put_first() -> None:
    at = environment(STUBBED, EMPTY, DRIVER)
    _, commands, _ = fix(family.toolkit_hides_driver_library, environment=at)
    assert commands == ('export LD_LIBRARY_PATH="/opt/deps/5.2.0/lib:/usr/local/musa/lib"',)


def driver_of(number: str) -> LoadableLibrary:
    return library("libmusa.so.1", f"/opt/deps/{number}/lib")


@pytest.mark.parametrize(
    ("folders", "text", "commands"),
    [
        (
            ("4.3.5", "5.2.0"),
            "Take the Toolkit's own, in /opt/deps/5.2.0/lib",
            ('eval "$(musadoctor env --toolkit 5.2.0)"',),
        ),
        (
            ("4.3.5",),
            "Take /opt/deps/4.3.5/lib out of LD_LIBRARY_PATH, or use the Toolkit 4.3.5",
            (),
        ),
    ],
)
def test_the_libmusa_of_another_release(
    folders: tuple[str, ...], text: str, commands: tuple[str, ...]
) -> None:
    check = family.driver_folder_of_other_release
    known = driver_folders(*folders)
    given = {"driver_folders": known, "user_driver": driver_of("4.3.5")}
    assert finds(check, **given) == (
        (
            "libmusa.so.1 -> /opt/deps/4.3.5/lib/libmusa.so.1 (by ld.so.cache) is of SDK 4.3.5,"
            f" in use is {TOOLKIT}"
        ),
    )
    assert fix(check, **given) == (text, commands, False)
    assert "unknown version" in cannot_tell(check, **given, toolkit=versionless())
    assert finds(check, **given, toolkit=toolkit("4.3.5")) == ()
    elsewhere = {**given, "user_driver": driver_of("5.1.0")}
    assert finds(check, **elsewhere) == ()
    unnamed = DriverFolders((DriverFolder("/opt/deps/4.3.5/lib", None),))
    assert finds(check, **{**given, "driver_folders": unnamed}) == ()


@pytest.mark.parametrize(
    ("folder", "fires"),
    [
        (entry("/usr/bin"), True),
        (entry("/m/bin", real="/usr/local/musa-5.2.0/bin"), False),
        (entry("/usr/local/musa-4.3.5/bin", toolkit="4.3.5"), False),
        (entry("/usr/local/musa-5.2.0/bin", state="missing"), True),
    ],
)
def test_path_is_without_the_toolkit(folder: SearchEntry, *, fires: bool) -> None:
    at = Environment({}, (folder,), ())
    found = finds(family.path_without_toolkit, environment=at)
    assert found == (("/usr/local/musa-5.2.0/bin is not in PATH",) if fires else ())


@pytest.mark.parametrize(
    ("value", "fires"),
    [
        ("all", True),
        ("void", True),
        ("0,x", True),
        ("0,,1", True),
        ("GPU-1", True),
        ("0;1", True),
        ("0", False),
        ("0, 1 ,2", False),
        ("", False),
        ("99", False),
    ],
)
def test_the_mask_is_not_a_list(value: str, *, fires: bool) -> None:
    at = environment(MUSA_VISIBLE_DEVICES=value)
    found = finds(family.visible_devices_not_a_list, environment=at)
    assert found == ((f"MUSA_VISIBLE_DEVICES={value} is not a list of indices",) if fires else ())


@pytest.mark.parametrize("value", ["-1", "0,-0", "GPU-01234567-89ab-cdef-0123-456789abcdef"])
def test_the_mask_is_of_a_form_of_other_software(value: str) -> None:
    at = environment(MUSA_VISIBLE_DEVICES=value)
    reason = cannot_tell(family.visible_devices_not_a_list, environment=at)
    assert value.rpartition(",")[2] in reason


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("8", "names none of the 8 cards (0 to 7)"),
        ("8,9", "names none of the 8 cards (0 to 7)"),
        ("7", ""),
        ("9,0", ""),
        ("all", ""),
    ],
)
def test_the_mask_hides_all(value: str, message: str) -> None:
    at = environment(MUSA_VISIBLE_DEVICES=value)
    found = finds(family.visible_devices_hide_all, environment=at)
    assert found == ((f"MUSA_VISIBLE_DEVICES={value} {message}",) if message else ())


def test_the_mask_without_known_cards() -> None:
    check = family.visible_devices_hide_all
    listed = environment(MUSA_VISIBLE_DEVICES="0")
    assert cannot_tell(check, environment=listed, gpus=UNSEEN) == UNSEEN.reason
    assert finds(check, environment=environment(MUSA_VISIBLE_DEVICES=""), gpus=UNSEEN)
    missing = family.visible_devices_missing
    assert cannot_tell(missing, environment=listed, gpus=UNSEEN) == UNSEEN.reason
    assert finds(missing, environment=environment(MUSA_VISIBLE_DEVICES="all"), gpus=UNSEEN) == ()
    assert skips(check, gpus=NO_GPU)


@pytest.mark.parametrize(("value", "fires"), [("0,8,1", True), ("0,7", False), ("8", False)])
def test_the_mask_names_a_card_that_is_not_there(value: str, *, fires: bool) -> None:
    check = family.visible_devices_missing
    at = environment(MUSA_VISIBLE_DEVICES=value)
    assert bool(finds(check, environment=at)) == fires
    if fires:
        assert fix(check, environment=at)[1] == ("export MUSA_VISIBLE_DEVICES=0,1",)


@pytest.mark.parametrize(
    ("value", "commands"),
    [("0,1", ("export MUSA_VISIBLE_DEVICES=0,1",)), ("GPU-1", ()), ("", ())],
)
def test_cuda_visible_devices_has_no_effect(value: str, commands: tuple[str, ...]) -> None:
    check = family.cuda_visible_devices_without_effect
    at = environment(CUDA_VISIBLE_DEVICES=value)
    assert finds(check, environment=at) == (
        f"CUDA_VISIBLE_DEVICES={value} does not restrict the 8 MUSA cards",
    )
    assert fix(check, environment=at)[1] == commands
    both = environment(CUDA_VISIBLE_DEVICES=value, MUSA_VISIBLE_DEVICES="0")
    assert finds(check, environment=both) == ()
    assert cannot_tell(check, environment=at, gpus=UNSEEN) == UNSEEN.reason


def test_the_containers_mask_outside_of_a_container() -> None:
    check = family.container_devices_outside_container
    at = environment(MTHREADS_VISIBLE_DEVICES="all")
    reason = "not a container: nothing shows one"
    assert finds(check, environment=at) == (
        f"MTHREADS_VISIBLE_DEVICES=all has no effect here: {reason}",
    )
    assert finds(check, environment=at, container=DOCKER) == ()
    assert cannot_tell(check, environment=at, container=UNSEEN) == UNSEEN.reason


def test_a_container_without_compute() -> None:
    check = family.container_without_compute
    for value, fires in (("utility", True), ("", True), ("compute,utility", False)):
        at = environment(MTHREADS_DRIVER_CAPABILITIES=value)
        found = finds(check, environment=at, container=DOCKER)
        message = f"MTHREADS_DRIVER_CAPABILITIES={value} in this docker"
        assert found == ((message,) if fires else ())
    at = environment(MTHREADS_DRIVER_CAPABILITIES="all")
    assert "no such value" in cannot_tell(check, environment=at, container=DOCKER)
    assert cannot_tell(check, environment=at, container=UNSEEN) == UNSEEN.reason
    nameless = DOCKER._replace(runtime=None)
    at = environment(MTHREADS_DRIVER_CAPABILITIES="utility")
    assert finds(check, environment=at, container=nameless)[0].endswith("in this container")


@pytest.mark.parametrize(
    ("value", "unknown"),
    [
        ("expandable_segments:True", ""),
        ("max_split_size_mb:512, garbage_collection_threshold:0.8", ""),
        ("roundup_power2_divisions:[256:1,512:2,>:4],backend:native", ""),
        ("pinned_use_background_threads:True,cpu:unified,", ""),
        ("", ""),
        ("release_lock_on_cudamalloc:True,backend:native", "release_lock_on_cudamalloc"),
        ("a:1,b:2", "a, b"),
    ],
)
def test_keys_of_the_allocator(value: str, unknown: str) -> None:
    at = environment(PYTORCH_MUSA_ALLOC_CONF=value)
    found = finds(family.alloc_conf_unknown_key, environment=at)
    if unknown:
        (message,) = found
        start = f"PYTORCH_MUSA_ALLOC_CONF={value} has {unknown}, which torch_musa does not know"
        assert message.startswith(start)
        assert "2026-01-19" in message
    else:
        assert found == ()


def test_cudas_allocator_has_no_effect() -> None:
    check = family.cuda_alloc_conf_without_effect
    at = environment(PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:1")
    assert finds(check, environment=at, gpus=gpus(S80)) == (
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:1 does nothing for MTT S80",
    )
    assert finds(check, environment=environment(PYTORCH_CUDA_ALLOC_CONF="")) == ()
    assert cannot_tell(check, environment=at, gpus=UNSEEN) == UNSEEN.reason


def test_autoload_is_off() -> None:
    check = family.torch_autoload_off
    at = environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert finds(check, environment=at) == (
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0, so `import torch` leaves torch_musa 2.9.1+musa5.2.0 out",
    )
    old = wheel("1.3.0")._replace(autoloads=False)
    assert finds(check, environment=at, torch_musa_build=old) == ()
    assert finds(check, environment=environment(TORCH_DEVICE_BACKEND_AUTOLOAD="1")) == ()
    assert cannot_tell(check, environment=at, torch_musa_build=UNSEEN) == UNSEEN.reason


@pytest.mark.parametrize(
    ("value", "fires"), [("0", False), ("1", False), ("true", True), ("", True), ("1 ", True)]
)
def test_slimes_segments(value: str, *, fires: bool) -> None:
    at = environment(SLIME_ENABLE_EXPANDABLE_SEGMENTS=value)
    found = finds(family.slime_expandable_segments_invalid, environment=at)
    message = f"SLIME_ENABLE_EXPANDABLE_SEGMENTS={value!r}, slime takes 0 or 1 only"
    assert found == ((message,) if fires else ())


@pytest.mark.parametrize(
    ("variables", "cards", "message"),
    [
        (
            {"SLIME_ACCELERATOR": "cuda"},
            CARDS,
            f"SLIME_ACCELERATOR=cuda, but this host has {CARDS}",
        ),
        ({"SLIME_ACCELERATOR": "MUSA"}, CARDS, ""),
        ({"MUSA_VISIBLE_DEVICES": "0"}, CARDS, ""),
        (
            {"SLIME_ACCELERATOR": "musa"},
            NO_GPU,
            "SLIME_ACCELERATOR make slime choose MUSA: no GPU of vendor 1ed5",
        ),
        (
            {"MUSA_VISIBLE_DEVICES": "0", "MUSA_PATCH_PATH": "/p"},
            NO_GPU,
            "MUSA_VISIBLE_DEVICES and MUSA_PATCH_PATH make slime choose MUSA: no GPU of vendor 1ed5",
        ),
        ({"SLIME_ACCELERATOR": "cuda", "MUSA_PATCH_PATH": "/p"}, NO_GPU, ""),
        ({}, NO_GPU, ""),
    ],
)
def test_slimes_accelerator(variables: dict[str, str], cards: object, message: str) -> None:
    at = environment(**variables)
    found = finds(family.slime_accelerator_contradicts, environment=at, gpus=cards)
    assert found == ((message,) if message else ())


@pytest.mark.parametrize("name", ["SLIME_ACCELERATOR", "MUSA_PATCH_PATH"])
def test_slimes_accelerator_without_known_cards(name: str) -> None:
    at = environment(**{name: "musa"})
    check = family.slime_accelerator_contradicts
    assert cannot_tell(check, environment=at, gpus=UNSEEN) == UNSEEN.reason


def test_an_algorithm_of_mccl_is_forced() -> None:
    check = family.mccl_algo_set
    at = environment(MCCL_ALGO="Ring")
    start = "MCCL_ALGO=Ring: seen to crash every run on MCCL 2.1.5; "
    assert finds(check, environment=at) == (f"{start}this host has {MCCL}",)
    assert finds(check, environment=at, mccl=Absent("no libmccl")) == (f"{start}no libmccl",)
    assert finds(check, environment=environment(MCCL_PROTO="Simple")) == ()


def test_nccls_variables_have_no_effect() -> None:
    check = family.nccl_variables_without_effect
    at = environment(NCCL_DEBUG="INFO", NCCL_IB_HCA="mlx5")
    assert finds(check, environment=at) == (
        f"NCCL_DEBUG, NCCL_IB_HCA set, but no MCCL variable, on a host with {CARDS}",
    )
    assert finds(check, environment=environment(NCCL_DEBUG="INFO", MCCL_DEBUG="INFO")) == ()
    assert cannot_tell(check, environment=at, gpus=UNSEEN) == UNSEEN.reason


def test_lists_of_operators_exclude_each_other() -> None:
    check = family.op_debug_lists_exclude_each_other
    chosen = {"TORCH_MUSA_OP_DEBUG_LIST": "add"}
    left_out = {"TORCH_MUSA_OP_DEBUG_BLACK_LIST": "mul"}
    assert finds(check, environment=environment(**chosen, **left_out)) == (
        "TORCH_MUSA_OP_DEBUG_LIST=add and TORCH_MUSA_OP_DEBUG_BLACK_LIST=mul",
    )
    assert finds(check, environment=environment(**chosen)) == ()
    assert finds(check, environment=environment(**left_out)) == ()


@pytest.mark.parametrize(
    ("value", "loaded"),
    [
        ("/usr/lib/libcuda.so.1", ["/usr/lib/libcuda.so.1"]),
        ("/a/libmusart.so.5:/b/libjemalloc.so", ["/a/libmusart.so.5"]),
        ("libmccl.so libnccl.so.2", ["libmccl.so", "libnccl.so.2"]),
        ("/usr/lib/libcublasLt.so.12", ["/usr/lib/libcublasLt.so.12"]),
        ("/usr/lib/libtcmalloc.so.4", []),
        ("/opt/libmusashi.so", []),
        ("", []),
    ],
)
def test_a_gpu_library_is_preloaded(value: str, loaded: list[str]) -> None:
    found = finds(family.gpu_library_preloaded, environment=environment(LD_PRELOAD=value))
    assert found == tuple(f"LD_PRELOAD={value} loads {path} into every process" for path in loaded)
