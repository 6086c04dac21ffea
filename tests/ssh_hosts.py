"""Hosts ``h1``, ``h2``, ... with a real sshd each, in the engine lab; each can be made sick.

A host has a network, a name, processes and mounts of its own, a home and a ``/tmp`` that 8 MiB
fill, and a PATH of its own: this machine's programs, but the Python, the musadoctor and the vendor
tools that the test gives it. The tools print what those of a set of versions print.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine_lab import Lab
from hosts.synthesise import S5000, SETS, Software, synthesise

USUAL = SETS["4.3.5"]
ODD = {"h5": USUAL._replace(driver="3.1.0-server")}
CARDS = 2
SPACE = "8m"
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))

START = """\
folder=$1 count=$2; shift 2
mkdir -p /run/host /run/sshd /usr/local/musa
own=$(readlink /proc/self/ns/net)
for i in $(seq "$count"); do
  unshare --net --uts --mount --pid --fork --kill-child sh -ec "$INSIDE" sh "$folder/h$i" "$i" &
  host=$!
  until [ "$(readlink /proc/$host/ns/net)" != "$own" ]; do sleep 0.01; done
  ip link add "v$i" type veth peer name eth0 netns $host
  ip link set "v$i" master br0 up
  until init=$(cat /proc/$host/task/$host/children); [ -n "$init" ]; do sleep 0.01; done
  echo "$init"
done
wait
"""
"""In the lab: ``$1`` the hosts' folder, ``$2`` how many; prints of each the process that is it."""
INSIDE = """\
folder=$1
mount --make-rprivate /
mount -t proc proc /proc
hostname "h$2"
mount -t tmpfs -o size=SPACE tmpfs /run/host
mkdir -p /run/host/own /run/host/tools /run/host/home /run/host/tmp /run/host/work
mount --bind "$folder/own" /run/host/own
mount --bind "$folder/../tools" /run/host/tools
mount --bind "$folder/musa" /usr/local/musa
mount --bind "$folder/passwd" /etc/passwd
mount -t overlay overlay -o lowerdir=/tmp,upperdir=/run/host/tmp,workdir=/run/host/work /tmp
until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done
ip addr add "10.77.0.$2/24" dev eth0
ip link set eth0 up
ip link set lo up
exec sleep infinity
""".replace("SPACE", SPACE)
OLD_PYTHON = """\
case "$1" in -V|--version) echo "Python 3.6.8"; exit 0;; esac
echo "  File \\"<string>\\", line 1" >&2; echo "SyntaxError: invalid syntax" >&2; exit 1
"""


class SshHosts:
    """The hosts, how to reach them, and what can befall them; :meth:`mend` makes all good again."""

    def __init__(
        self, lab: Lab, count: int = 8, software: Mapping[str, Software] | None = None
    ) -> None:
        """Start ``count`` hosts; those that ``software`` does not name have the usual set."""
        self.lab = lab
        self.names = tuple(f"h{i}" for i in range(1, count + 1))
        self.folder = lab.folder / "ssh"
        self._software = ODD if software is None else software
        self._changed: set[str] = set()
        self.folder.mkdir()
        self._mended = self.folder / "mended"
        for key in ("id", "host-key", "other-key"):
            self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key))
        names = "".join(f"{self.address(host)} {host}\\n" for host in self.names)
        self._run("sh", "-c", f"printf '{names}' >>/etc/hosts")
        self._link_programs()
        self._write_client()
        for host in self.names:
            (self.folder / host / "musa").mkdir(parents=True)
            self._furnish(host)
        self._keeper = lab.start(
            *("sh", "-ec", START, "sh", str(self.folder), str(count)),
            variables={"INSIDE": INSIDE},
            stdout=-1,
        )
        assert self._keeper.stdout is not None
        self._init = {host: self._keeper.stdout.readline().strip() for host in self.names}
        for host in self.names:
            # The last that a host does before it is one.
            self._run(
                "sh", "-c", f"until [ $(ps -o comm= {self._init[host]}) = sleep ]; do :; done"
            )
            self._start_sshd(host)
        self._mended.touch()

    def address(self, host: str) -> str:
        """Its place in the lab's network."""
        return f"10.77.0.{host[1:]}"

    @property
    def config(self) -> Path:
        """For ``ssh -F``, in the lab. ``far`` is ``h2``, reached by way of ``h1``."""
        return self.folder / "config"

    @property
    def path(self) -> str:
        """A PATH outside of the lab: its ``ssh`` is the lab's, with :attr:`config`."""
        return f"{self.folder / 'client'}:{os.environ['PATH']}"

    def on(self, host: str, *argv: str) -> str:
        """What a command prints that runs on the host, without going over the network."""
        return self._run(*self._entering(host), *argv)

    def running(self, host: str) -> list[str]:
        """The command lines of all that runs on the host, but for the waiting sshd."""
        lines = self.on(host, "ps", "-eo", "pid=,stat=,args=").splitlines()
        fields = [line.split(None, 2) for line in lines]
        ours = [args for pid, stat, args in fields if pid != "1" and not stat.startswith("Z")]
        return [args for args in ours if not args.startswith(("ps -eo", "sshd: /usr/sbin/sshd"))]

    def written(self, host: str) -> str:
        """The files that were written on the host since it was mended."""
        return self.on(
            host,
            *("find", "/run/host/home", "/run/host/tmp", "-type", "f", "-newer", str(self._mended)),
            # A checkout below /tmp: what is installed compiles itself on its first start.
            *("!", "-path", "*/__pycache__/*"),
        )

    def mend(self) -> None:
        """Make every host what it was when it was new."""
        for host in sorted(self._changed):
            self.kill_sshd(host)
            left = self.on(host, "ps", "-eo", "pid=,comm=").split()
            pids = [pid for pid in left[::2] if pid != "1"]
            self.on(host, "sh", "-c", f"kill -9 {' '.join(pids)} 2>/dev/null || :")
            self.on(
                host, "sh", "-c", "rm -rf /run/host/fill /run/host/home/.[!.]* /run/host/home/*"
            )
            self._run("ip", "link", "set", f"v{host[1:]}", "up")
            self._furnish(host)
            self._start_sshd(host)
        self._changed.clear()
        self._write_client()
        self._mended.touch()

    def close(self) -> None:
        """End the hosts; the lab would, too."""
        self._run("kill", "-9", *self._init.values())
        self._keeper.communicate()

    # What a host has

    def program(self, host: str, name: str, script: str) -> None:
        """Put a shell script on its PATH, before all else."""
        self._changed.add(host)
        _write_program(self.folder / host / "own" / name, script)

    def hang(self, host: str, tool: str) -> None:
        """Let one of its programs never end."""
        self.program(host, tool, "exec sleep 1000")

    def remove(self, host: str, program: str) -> None:
        """Take a program off its PATH: ``musadoctor``, ``python3`` or a vendor tool."""
        self._changed.add(host)
        (self.folder / host / "own" / program).unlink()

    def have_old_python(self, host: str) -> None:
        """Let its only Python be 3.6.8."""
        self.program(host, "python3", OLD_PYTHON)

    def install(self, host: str, software: Software) -> None:
        """Give it the tools of another set of versions."""
        self._changed.add(host)
        self._furnish(host, software)

    def fill(self, host: str) -> None:
        """Leave no space in its home and its ``/tmp``."""
        self._changed.add(host)
        self.on(host, "sh", "-c", "cat /dev/zero >/run/host/fill 2>/dev/null || :")

    # What logging in to it is like

    def cut(self, host: str) -> None:
        """Take its network away; whoever talks to it is told nothing."""
        self._changed.add(host)
        self._run("ip", "link", "set", f"v{host[1:]}", "down")

    def kill_sshd(self, host: str) -> None:
        """Kill its sshd, and those that serve connections."""
        self._changed.add(host)
        found = self.on(host, "ps", "-eo", "pid=,comm=").split()
        pids = [pid for pid, name in zip(found[::2], found[1::2], strict=True) if name == "sshd"]
        self.on(host, "sh", "-c", f"kill -9 {' '.join(pids)} 2>/dev/null || :")

    def change_host_key(self, host: str) -> None:
        """Let it show another key than the one that is known."""
        self._restart_sshd(host, HostKey=f"{self.folder}/other-key")

    def forget_host_key(self, host: str) -> None:
        """Let its key be known to nobody."""
        self._changed.add(host)
        self._write_client(unknown=host)

    def refuse(self, host: str) -> None:
        """Let nobody in."""
        self._restart_sshd(host, AuthorizedKeysFile="/dev/null")

    def show_banner(self, host: str, text: str) -> None:
        """Show a text before a login: sshd sends it, and ssh prints it on standard error."""
        file = self.folder / host / "banner"
        file.write_text(text)
        self._restart_sshd(host, Banner=str(file))

    def print_at_login(self, host: str, script: str) -> None:
        """Run a script at each login; what it prints comes before all else."""
        self._changed.add(host)
        _write_program(self.folder / host / "own" / "at-login", script)
        rc = "mkdir -p /run/host/home/.ssh; echo 'exec /run/host/own/at-login' >/run/host/home/.ssh/rc"
        self.on(host, "sh", "-c", rc)

    def login_shell(self, host: str, shell: str) -> None:
        """Let root have another shell there: ``/bin/tcsh``, ``/usr/sbin/nologin``."""
        self._changed.add(host)
        self._write_passwd(host, shell)

    def variables(self, host: str, **variables: str) -> None:
        """Set variables for whatever runs there: ``LC_ALL``."""
        self._restart_sshd(host, SetEnv=_set(variables))

    def _run(self, *argv: str) -> str:
        done = self.lab.run(*argv)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def _entering(self, host: str) -> Sequence[str]:
        return ("nsenter", "-t", self._init[host], "--mount", "--net", "--uts", "--pid", "--")

    def _link_programs(self) -> None:
        """All of this machine's programs but its Pythons, and those of musadoctor's concern."""
        tools = self.folder / "tools"
        tools.mkdir()
        names = self._run("sh", "-c", "ls /usr/sbin; echo /; ls /usr/bin").split()
        for where, found in (
            ("/usr/sbin", names[: names.index("/")]),
            ("/usr/bin", names[names.index("/") + 1 :]),
        ):
            for name in found:
                if not name.startswith(("python", "pip", "mthreads", "musa")):
                    (tools / name).unlink(missing_ok=True)
                    (tools / name).symlink_to(f"{where}/{name}")

    def _write_client(self, unknown: str = "") -> None:
        lines = [
            "Host *",
            f"  IdentityFile {self.folder}/id",
            f"  UserKnownHostsFile {self.folder}/known_hosts",
            "  User root",
            "  IdentitiesOnly yes",
            "  GlobalKnownHostsFile /dev/null",
        ]
        for host in self.names:
            lines += [f"Host {host}", f"  HostName {self.address(host)}"]
        lines += ["Host far", f"  HostName {self.address('h2')}", "  ProxyJump h1", ""]
        self.config.write_text("\n".join(lines))
        kind, key, *_ = (self.folder / "host-key.pub").read_text().split()
        known = [f"{self.address(h)} {kind} {key}\n" for h in self.names if h != unknown]
        (self.folder / "known_hosts").write_text("".join(known))
        (self.folder / "client").mkdir(exist_ok=True)
        inside = self.lab.command([])
        kept = [word for word in inside if word != "--pid" and not word.startswith("--wd=")]
        for name in ("ssh", "scp", "sftp"):
            command = shlex.join([*kept, name, "-F", str(self.config)])
            _write_program(
                self.folder / "client" / name, f'PATH=/usr/sbin:/usr/bin exec {command} "$@"'
            )

    def _furnish(self, host: str, software: Software | None = None) -> None:
        """The programs and files of a new host."""
        software = software or self._software.get(host, USUAL)
        own, musa = self.folder / host / "own", self.folder / host / "musa"
        own.mkdir(exist_ok=True)
        (musa / "bin").mkdir(exist_ok=True)
        for file in own.iterdir():
            file.unlink()
        answers = synthesise(S5000, CARDS, software, 2048)
        outputs = {key: ran["out"] for key, ran in answers["runs"].items() if "out" in ran}
        gmi = "mthreads-gmi"
        _write_tool(own / gmi, {"": outputs[gmi], "-q --json": outputs[f"{gmi} -q --json"]})
        _write_tool(own / "dmesg", {"": outputs["dmesg"]})
        _write_tool(own / "mcc", {"--version": outputs["mcc --version"]})
        for name in ("musaInfo", "musa_version_query"):
            text = outputs[f"/usr/local/musa-{software.toolkit}/bin/{name}"]
            _write_tool(musa / "bin" / name, {"": text})
        shutil.copyfile(own / "mcc", musa / "bin" / "mcc")
        (musa / "bin" / "mcc").chmod(0o755)
        version = answers["files"][f"/usr/local/musa-{software.toolkit}/version.json"]
        (musa / "version.json").write_text(json.dumps(json.loads(version), indent=1))
        _write_program(own / "python3", f'exec {shlex.quote(PYTHON)} "$@"')
        _write_program(own / "musadoctor", f'exec {shlex.quote(sys.executable)} -m musadoctor "$@"')
        self._write_passwd(host, "/bin/sh")
        self._write_sshd_config(host)

    def _write_passwd(self, host: str, shell: str) -> None:
        others = "sshd:x:991:991::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
        # Written into, not replaced: it is mounted over the real one.
        with open(self.folder / host / "passwd", "w", encoding="utf-8") as file:
            file.write(f"root:x:0:0:root:/run/host/home:{shell}\n{others}")

    def _write_sshd_config(self, host: str, **settings: str) -> None:
        usual = {
            "ListenAddress": self.address(host),
            "HostKey": f"{self.folder}/host-key",
            "AuthorizedKeysFile": f"{self.folder}/id.pub",
            "Banner": "none",
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "MaxStartups": "100",
            "Subsystem": "sftp /usr/lib/openssh/sftp-server",
            "SetEnv": _set({}),
        }
        lines = [f"{key} {value}\n" for key, value in {**usual, **settings}.items()]
        (self.folder / host / "sshd_config").write_text("".join(lines))

    def _start_sshd(self, host: str) -> None:
        self.on(host, "/usr/sbin/sshd", "-f", f"{self.folder}/{host}/sshd_config")

    def _restart_sshd(self, host: str, **settings: str) -> None:
        self.kill_sshd(host)
        self._write_sshd_config(host, **settings)
        self._start_sshd(host)


def _set(variables: Mapping[str, str]) -> str:
    settled = {"PATH": "/run/host/own:/run/host/tools", "MUSA_HOME": "/usr/local/musa"}
    return " ".join(f'"{key}={value}"' for key, value in {**settled, **variables}.items())


def _write_program(file: Path, script: str) -> None:
    file.unlink(missing_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def _write_tool(file: Path, outputs: Mapping[str, str]) -> None:
    """A program that prints what belongs to its arguments."""
    cases = "".join(
        f"{shlex.quote(arguments)}) cat <<'END'\n{text}END\n;;\n"
        for arguments, text in outputs.items()
    )
    _write_program(file, f'case "$*" in\n{cases}*) exit 64;;\nesac')
