"""What the tests share: hosts written down in a few lines, and the recorded samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from musadoctor.recording import Recorder, Recording
from musadoctor.system import Elf, Failure, Found, Platform, Ran, Resources, Stat

TESTS = Path(__file__).parent
SAMPLES = TESTS / "samples"
BUSY = 4.0
"""Seconds that a machine with other work may add; what is waited for in vain takes far longer."""

LINUX = Platform(
    kernel="5.15.0-105-generic",
    architecture="x86_64",
    host_name=None,
    glibc="2.35",
    uid=1000,
    groups=("user", "video", "render"),
    own_python="/usr/bin/python3",
)

RESOURCES = Resources(logical_cpus=64, memory_bytes=512 * 2**30)


def host(
    *,
    files: Mapping[str, str | Failure] | None = None,
    folders: Mapping[str, Sequence[str] | Failure] | None = None,
    stats: Mapping[str, Stat | Failure] | None = None,
    variables: Mapping[str, str | None] | None = None,
    programs: Mapping[str, Found] | None = None,
    libraries: Mapping[str, Elf | Failure] | None = None,
    loader_cache: Mapping[str, dict[str, str] | Failure] | None = None,
    runs: Mapping[str, Ran] | None = None,
    platform: Platform | Failure | None = LINUX,
    resources: Resources | Failure | None = RESOURCES,
    unlisted: str = "not there",
) -> Recorder:
    """A machine that has what is given; all else is not there (or not recorded)."""
    tables: dict[str, Mapping[str, object]] = {
        "files": files or {},
        "folders": {
            k: v if isinstance(v, Failure) else tuple(v) for k, v in (folders or {}).items()
        },
        "stats": stats or {},
        "variables": variables or {},
        "programs": programs or {},
        "libraries": libraries or {},
        "loader_cache": loader_cache or {},
        "runs": runs or {},
        "platform": {} if platform is None else {"": platform},
        "resources": {} if resources is None else {"": resources},
    }
    return Recorder(Recording.of_answers(tables, closed=unlisted == "not there"))


def file(size: int = 1000, *, real: str = "", executable: bool = False, mode: int = 0o644) -> Stat:
    """An ordinary file's answer."""
    return Stat("file", size, mode, "root", usable=False, executable=executable, real=real)


def folder(real: str) -> Stat:
    """A folder's answer."""
    return Stat("folder", 4096, 0o755, "root", usable=False, executable=True, real=real)


def sample(name: str) -> str:
    """The text of a recorded sample."""
    return (SAMPLES / name).read_text(encoding="utf-8")
