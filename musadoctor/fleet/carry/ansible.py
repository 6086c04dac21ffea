"""Hosts of an Ansible inventory: the site's own ``ansible``, with its configuration and variables.

One ad-hoc task of ``ansible.builtin.script`` carries the errand. Ansible puts the script, with
``--bring`` musadoctor too, into its temporary folder on the host and removes it afterwards; nothing
of Ansible's care is loosened, and another user is become only where that was asked for.

Ansible gives up a host whose task takes too long, and lets what it has begun there run on. So the
script carries a clock, and ends on the host by itself. Where Ansible is ended, its connections end,
and with their terminals what ran on the hosts; its temporary folder there stays. As with every use
of Ansible, its ssh may hold a connection open for a minute, for the next one.
"""

import json
import math
import re
import secrets
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import HOST, SILENT, TIMED_OUT, Answer, line, quoted
from musadoctor.fleet.carry.ansible_results import (
    PLUGIN,
    SOURCE,
    Told,
    answer,
    listener,
    words,
)
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.fleet.carry.script import MARK, script, self_contained
from musadoctor.fleet.nodes import natural
from musadoctor.system import Ran

FORKS = 32
"""Hosts that are asked at one time; each is a process of Ansible's."""
START_SECONDS = 60
"""What Ansible may take to start and to read an inventory, which may be a program."""
TICK = 0.1
SETTINGS = {
    # Ansible refuses to work in others.
    "LC_ALL": "C.UTF-8",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_FORCE_COLOR": "0",
    "ANSIBLE_DEPRECATION_WARNINGS": "0",
    # Only ours, also where a site has others for its ad-hoc commands.
    "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
    "ANSIBLE_CALLBACKS_ENABLED": PLUGIN,
    "ANSIBLE_STDOUT_CALLBACK": PLUGIN,
    # A setting for all tasks would hide the answers.
    "ANSIBLE_NO_LOG": "0",
    # A host that fails must not keep the others from being asked.
    "ANSIBLE_ANY_ERRORS_FATAL": "0",
    "ANSIBLE_ASK_PASS": "0",
    "ANSIBLE_BECOME_ASK_PASS": "0",
    "ANSIBLE_ASK_VAULT_PASS": "0",
}
"""Of the user's settings, those that are changed."""
_ASKS = re.compile(r"-[bCDv]*[kKJ].*|--ask-.*|(?:--vault-id=)?(?:.*@)?prompt(?:_ask_vault_pass)?")
"""Options with which Ansible asks a person for a password."""
_SHORTENS = re.compile(r"-[bCDv]*o.*|--o.*")
"""The option with which Ansible prints in its own way whatever else is set; also cut short."""
_LISTED = re.compile(r"^  hosts \(\d+\):\n((?:    .+\n)*)", re.MULTILINE)
"""What ``--list-hosts`` prints."""
# The clock holds the script's input; when it stops, the script ends what it has begun. Its number
# comes first, for a script that is done stops it.
_TIMED = """\
exec 5>&1
{{
  sleep {seconds} & echo $!
  wait $! && echo "{mark} {nonce} $1 failed timed-out {seconds}" >&5
}} 2>/dev/null | {{
read -r clock
trap 'kill $clock 2>/dev/null' EXIT
{text}}}
"""


class Ansible(NamedTuple):
    """Hosts that an inventory names."""

    inventory: tuple[str, ...] = ()
    """As ``-i`` takes them; none: what Ansible's own configuration names."""
    pattern: str = "all"
    become: bool = False
    """Whether root is become on the hosts, as Ansible does it: by sudo, if nothing else is set."""
    forks: int = FORKS
    options: tuple[str, ...] = ()
    """More arguments of ``ansible``."""
    limit: tuple[str, ...] | None = None
    """The hosts; ``None``: all that the pattern names."""

    @property
    def name(self) -> str:
        """``ansible``."""
        return "ansible"

    def hosts(self) -> Sequence[str]:
        """The names of the inventory, sorted: Ansible's own order is another every time.

        Raises:
            EngineError: Ansible is not there, would ask for a password or print in another form,
                or finds no host; or one of the names is none that a report could bear.
        """
        return _listed(self, threading.Event())

    def only(self, hosts: Sequence[str]) -> "Ansible":
        """The same for some of the hosts, all at once."""
        return self._replace(limit=tuple(hosts), forks=max(1, len(hosts)))

    def address(self, host: str) -> str:
        """The host's ``ansible_host``, if the inventory has it."""
        task = _task("debug", msg="{{ ansible_host | default(inventory_hostname) }}")
        said: list[str] = []
        with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
            _run(
                self.only([host]),
                Path(folder),
                task,
                patience=0,
                cancelled=threading.Event(),
                told=lambda told: said.append(told.message),
            )
        return said[0] if said and HOST.fullmatch(said[0]) else host

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Ask every host, ``forks`` at a time; each is told of as soon as Ansible knows.

        Raises:
            EngineError: Ansible is not there, or ended before it had asked anybody; with its words.
        """
        try:
            hosts = _listed(self, cancelled)
        except EngineError:
            if cancelled.is_set():
                return
            raise
        left = dict.fromkeys(hosts)
        nonce = secrets.token_hex(8)
        seconds = math.ceil(errand.seconds)
        # To be let in, and to take the script; the host's own clock comes before this.
        limit = seconds + 2 * CONNECT_SECONDS

        def told(told: Told) -> None:
            if told.host in left:
                del left[told.host]
                trial = ["ansible", told.host, *_chosen(self), "-m", "raw", "-a", "true"]
                arrived(answer(told, nonce, limit=limit, trial=shlex.join(trial)))

        with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
            carried = Path(folder) / MARK
            carried.write_bytes(_carried(errand, nonce, seconds))
            script_and_host = f"{shlex.quote(str(carried))} {{{{ inventory_hostname | quote }}}}"
            # On a file system from which nothing may be started the shell can still read.
            task = _task("script", cmd=script_and_host, executable="/bin/sh")
            ran = _run(
                self,
                Path(folder),
                [f"--task-timeout={limit}", *task],
                patience=limit,
                cancelled=cancelled,
                told=told,
            )
        if cancelled.is_set():
            return
        if len(left) == len(hosts) and ran.status != "timed out":
            raise EngineError(f"Ansible asked nobody: {words(ran)}")
        for host in left:
            if ran.status == "timed out":
                arrived(Answer(host, None, TIMED_OUT, f"Ansible told nothing more in {limit} s"))
            else:
                arrived(Answer(host, None, SILENT, f"Ansible told nothing of it: {words(ran)}"))


def _listed(engine: Ansible, cancelled: threading.Event) -> Sequence[str]:
    if engine.limit is not None:
        return engine.limit
    said = bytearray()

    def heard(piece: bytes) -> bool:
        said.extend(piece)
        return True

    ran = runner.stream(
        [*_command(engine), "--list-hosts"],
        limit=START_SECONDS,
        cancelled=cancelled,
        heard=heard,
        changes=SETTINGS,
    )
    found = _LISTED.search(said.decode("utf-8", "replace"))
    if ran.status != "ok" or found is None:
        raise EngineError(f"Ansible lists no hosts: {words(ran)}")
    hosts = tuple(sorted((text.strip() for text in found[1].splitlines()), key=natural))
    if not hosts:
        raise EngineError(f"Ansible finds no host for {quoted(engine.pattern)}: {words(ran)}")
    for host in hosts:
        if not HOST.fullmatch(host):
            raise EngineError(
                f"{quoted(host)} is no name of a host; what it is reached by has its place in "
                "ansible_host"
            )
    return hosts


def _command(engine: Ansible) -> list[str]:
    program = shutil.which("ansible")
    if program is None:
        raise EngineError("ansible is not installed here: install ansible-core")
    for option in engine.options:
        if _ASKS.fullmatch(option):
            raise EngineError(
                f"Ansible cannot ask for a password here ({line(option, 40)}): use keys, sudo that "
                "asks for none, or --become-password-file, --connection-password-file and "
                "--vault-password-file"
            )
        if _SHORTENS.fullmatch(option):
            raise EngineError(
                f"Ansible would print its answers in another form ({line(option, 40)}): leave "
                "--one-line out"
            )
    become = ["--become"] if engine.become else []
    return [program, engine.pattern, f"--timeout={CONNECT_SECONDS}", *become, *_chosen(engine)]


def _chosen(engine: Ansible) -> list[str]:
    return [*(word for place in engine.inventory for word in ("-i", place)), *engine.options]


def _run(
    engine: Ansible,
    folder: Path,
    task: Sequence[str],
    *,
    patience: float,
    cancelled: threading.Event,
    told: Callable[[Told], None],
) -> Ran:
    """One task on the hosts; ``folder`` is for what Ansible reads and for what it keeps.

    Ansible is ended where it tells nothing in ``patience`` seconds: a task on a host whose link is
    lost can outlast its limit by hours, for it tidies up there.
    """
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / f"{PLUGIN}.py").write_text(SOURCE)
    limited: list[str] = []
    if engine.limit is not None:  # there may be too many for one argument
        (folder / "hosts").write_text("".join(f"{host}\n" for host in engine.limit))
        limited = [f"--limit=@{folder}/hosts"]
    over, stop = threading.Event(), threading.Event()
    end = time.monotonic() + START_SECONDS + patience

    def heard(one: Told) -> None:
        nonlocal end
        end = time.monotonic() + CONNECT_SECONDS + patience
        told(one)

    def watch() -> None:
        while not over.wait(TICK):
            if cancelled.is_set() or time.monotonic() > end:
                stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return runner.stream(
            [*_command(engine), f"--forks={engine.forks}", *limited, *task],
            limit=math.inf,
            cancelled=stop,
            heard=listener(heard),
            changes={
                **SETTINGS,
                "ANSIBLE_CALLBACK_PLUGINS": str(plugins),
                "ANSIBLE_LOCAL_TEMP": str(folder / "local"),
            },
        )
    finally:
        over.set()
        watcher.join()


def _task(module: str, **values: str) -> list[str]:
    return ["-m", f"ansible.builtin.{module}", "-a", json.dumps(values)]


def _carried(errand: Errand, nonce: str, seconds: int) -> bytes:
    """The file that Ansible hands over; its first argument is the host's name."""
    text = script(
        errand,
        nonce,
        name='"$1"',
        payload="file" if errand.zipapp else "installed",
        watched=True,
    )
    timed = _TIMED.format(seconds=seconds, mark=MARK, nonce=nonce, text=text)
    return self_contained(timed, errand.zipapp or b"")
