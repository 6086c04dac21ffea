"""Four nodes ``n1`` to ``n4`` of a real Slurm in the engine lab; each can be made sick.

munged and slurmctld run on the lab's ``control``. A node has a network, a name, processes and mounts
of its own, its slurmd, and ``/run/node/own``: the programs that the test gives it, first on the PATH
of whatever is started from :attr:`SlurmNodes.path`.
"""

import json
import os
import shlex
import sys
import time
from pathlib import Path
from subprocess import PIPE

from engine_lab import PATH, Lab
from recorded import whole

START = """\
folder=$1; shift
own=$(readlink /proc/self/ns/net)
for i in 1 2 3 4; do
  unshare --net --uts --mount --pid --fork --kill-child sh -ec "$INSIDE" sh "$folder/n$i" "$i" &
  node=$!
  until [ "$(readlink /proc/$node/ns/net)" != "$own" ]; do sleep 0.01; done
  ip link add "s$i" type veth peer name eth0 netns $node
  ip link set "s$i" master br0 up
  until init=$(cat /proc/$node/task/$node/children); [ -n "$init" ]; do sleep 0.01; done
  echo "$init"
done
wait
"""
INSIDE = """\
mount --make-rprivate /
mount -t proc proc /proc
hostname "n$2"
mkdir -p /run/node/own
mount --bind "$1" /run/node/own
until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done
ip addr add "10.77.0.10$2/24" dev eth0
ip link set eth0 up
ip link set lo up
exec sleep infinity
"""
SERVERS = """\
set -e
for name in slurmctld slurmd slurmstepd; do ln -sf $name-wlm /usr/sbin/$name; done
mkdir -p /run/munge /var/log/munge
head -c 1024 /dev/urandom >/etc/munge/munge.key
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 400 /etc/munge/munge.key
chmod 711 /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged
slurmctld
"""
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost=control(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
MpiDefault=none
MessageTimeout=4
GresTypes=gpu
{more}
NodeName=n[1-4] NodeAddr=10.77.0.10[1-4] CPUs=2 RealMemory=1000 Gres=gpu:s5000:8
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=odd Nodes=n[1,3] MaxTime=60 State=UP
"""
COMMANDS = ("salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")


class SlurmNodes:
    """The nodes, how to reach Slurm, and what can befall them; :meth:`mend` makes all good again."""

    names = ("n1", "n2", "n3", "n4")

    def __init__(self, lab: Lab) -> None:
        """Start Slurm; the nodes are idle then."""
        self.lab = lab
        self.folder = lab.folder / "slurm"
        self._changed: set[str] = set()
        for folder in ("client", "state", *self.names):
            (self.folder / folder).mkdir(parents=True)
        for card in range(8):
            (self.folder / f"card{card}").touch()
        self.settings()
        self._write_client()
        self._run("sh", "-c", SERVERS)
        self._keeper = lab.start(
            *("sh", "-ec", START, "sh", str(self.folder)), variables={"INSIDE": INSIDE}, stdout=PIPE
        )
        assert self._keeper.stdout is not None
        self._init = {node: self._keeper.stdout.readline().strip() for node in self.names}
        for node in self.names:
            # The last that a node does before it is one.
            self._run(
                "sh", "-c", f"until [ $(ps -o comm= {self._init[node]}) = sleep ]; do :; done"
            )
            self._furnish(node)
            self._start_slurmd(node)
        self._await_free()

    @property
    def path(self) -> str:
        """A PATH outside of the lab: its ``srun`` and the like are the lab's."""
        return f"{self.folder / 'client'}:{os.environ['PATH']}"

    def slurm(self, *argv: str) -> str:
        """What one of Slurm's commands prints, run on ``control``."""
        return self._run("env", f"PATH=/run/node/own:{PATH}", *argv)

    def state(self, node: str) -> str:
        """``idle``, ``drained``, ... as Slurm tells it."""
        return self.slurm("sinfo", "-h", "-n", node, "-p", "main", "-o", "%T").strip()

    def reason(self, node: str) -> str:
        """Why it is drained or down, as Slurm tells it."""
        return self.slurm("sinfo", "-h", "-n", node, "-p", "main", "-o", "%E").strip()

    def on(self, node: str, *argv: str) -> str:
        """What a command prints that runs on the node, without Slurm."""
        return self._run("nsenter", "-t", self._init[node], *_ALL, "--", *argv)

    def running(self, node: str) -> list[str]:
        """The command lines of all that runs on the node, but for the waiting slurmd."""
        lines = self.on(node, "ps", "-eo", "pid=,stat=,args=").splitlines()
        fields = [line.split(None, 2) for line in lines]
        alive = [args for pid, stat, args in fields if pid != "1" and not stat.startswith("Z")]
        return [args for args in alive if not args.startswith(("ps -eo", "/usr/sbin/slurmd "))]

    def jobs(self) -> list[str]:
        """The names of all jobs that Slurm has not forgotten."""
        return self.slurm("squeue", "-h", "-o", "%j").split()

    def mend(self) -> None:
        """Make every node what it was when it was new."""
        for node in self._changed:
            self.connect(node)
            self._furnish(node)
            self.kill_slurmd(node)
            left = [pid for pid in self.on(node, "ps", "-eo", "pid=").split() if pid != "1"]
            self.on(node, "sh", "-c", f"kill -9 {' '.join(left)} 2>/dev/null || :")
            self._start_slurmd(node)
        self._changed.clear()
        self._await_free()

    def close(self) -> None:
        """Leave the nodes; they end with the lab."""
        assert self._keeper.stdout is not None
        self._keeper.stdout.close()
        self._keeper.kill()
        self._keeper.wait()

    # What can befall a node

    def program(self, node: str, name: str, script: str) -> None:
        """Put a shell script on its PATH, before all else."""
        self._changed.add(node)
        _write_program(self.folder / node / name, script)

    def record(self, node: str, case: str) -> None:
        """Let musadoctor find there what it found on a recorded host."""
        recording = self.folder / node / f"{case}.json"
        recording.write_text(json.dumps(whole(case)), encoding="utf-8")
        self.program(node, "musadoctor", _RECORDED.format(python=sys.executable, file=recording))

    def remove(self, node: str, program: str) -> None:
        """Take a program off its PATH that the test gave it."""
        self._changed.add(node)
        (self.folder / node / program).unlink()

    def hang(self, node: str, tool: str) -> None:
        """Let one of its programs never end."""
        self.program(node, tool, "exec sleep 1000")

    def cut(self, node: str) -> None:
        """Take its network away; whoever talks to it is told nothing."""
        self._changed.add(node)
        self._run("ip", "link", "set", f"s{node[1:]}", "down")

    def connect(self, node: str) -> None:
        """Give it its network back."""
        self._run("ip", "link", "set", f"s{node[1:]}", "up")

    def kill_slurmd(self, node: str) -> None:
        """Kill its slurmd; whoever asks for it is refused."""
        self._changed.add(node)
        self.on(node, "sh", "-c", "pkill -9 -x slurmd; while pgrep -r R,S,D -x slurmd; do :; done")

    def drain(self, node: str, reason: str) -> None:
        """Let Slurm start nothing more on it."""
        self._changed.add(node)
        self.slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def settings(self, *more: str) -> None:
        """Add lines to slurm.conf; :meth:`reconfigure` makes Slurm read them."""
        text = CONFIGURATION.format(folder=self.folder, more="\n".join(more))
        gres = f"NodeName=n[1-4] Name=gpu Type=s5000 File={self.folder}/card[0-7]\n"
        write = 'mkdir -p /etc/slurm; printf %s "$1" >/etc/slurm/slurm.conf; printf %s "$2" >/etc/slurm/gres.conf'
        self._run("sh", "-c", write, "sh", text, gres)

    def reconfigure(self, *more: str) -> None:
        """Let Slurm go on with these lines in slurm.conf."""
        self.settings(*more)
        self.slurm("scontrol", "reconfigure")

    def _run(self, *argv: str) -> str:
        done = self.lab.run(*argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def _write_client(self) -> None:
        inside = self.lab.command([])
        # Without a process in between: what ends it, ends the command.
        kept = [word for word in inside if word != "--pid" and not word.startswith("--wd=")]
        for name in COMMANDS:
            command = shlex.join([*kept, name])
            script = f'PATH=/run/node/own:{PATH} exec {command} "$@"'
            _write_program(self.folder / "client" / name, script)

    def _furnish(self, node: str) -> None:
        own = self.folder / node
        for file in own.iterdir():
            file.unlink()
        python = shlex.quote(sys.executable)
        _write_program(own / "musadoctor", f'exec {python} -m musadoctor "$@"')

    def _start_slurmd(self, node: str) -> None:
        self.on(node, "/usr/sbin/slurmd", "-N", node)
        # What it is told before it listens, it is told again minutes later only.
        listens = "until (: </dev/tcp/127.0.0.1/6818) 2>/dev/null; do sleep 0.01; done"
        self.on(node, "bash", "-c", listens)

    def _await_free(self) -> None:
        begun = time.monotonic()
        # A node that is free may be told to be mixed until something else happens.
        free = {"idle", "mixed", "allocated"}
        while not free.issuperset(states := list(map(self.state, self.names))) or self.jobs():
            waited = time.monotonic() - begun
            assert waited < 60, (states, self.jobs(), list(map(self.reason, self.names)))
            self.slurm("scancel", "--user=root")
            for node, state in zip(self.names, states, strict=True):
                if state.startswith(("down", "drain")):
                    self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
                elif state.startswith("comp") and waited > 2:
                    # A job that was ended while the node was away: Slurm asks again in minutes.
                    self._forget_jobs(node)
            time.sleep(0.05)

    def _forget_jobs(self, node: str) -> None:
        self.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=mended")
        self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.slurm("srun", "--immediate=30", f"--nodelist={node}", "true")


# To a recording a limit says nothing; `fleet` is for this very host.
_RECORDED = """\
[ "$1" = fleet ] && exec {python} -m musadoctor "$@"
for word; do
  shift
  case $limit$word in --timeout) limit=1 ;; 1*) limit= ;; *) set -- "$@" "$word" ;; esac
done
exec {python} -m musadoctor --recording {file} "$@"
"""
_ALL = ("--mount", "--net", "--uts", "--pid")


def _write_program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
