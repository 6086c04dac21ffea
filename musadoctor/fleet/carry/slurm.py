"""Nodes of a Slurm cluster: a few steps in one allocation, our own or the one that we are in.

Our own allocation takes the nodes that are free, and waits for no others. It has a time limit, so
that nothing is held for long whatever becomes of us.
"""

import math
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import NOT_PLACED, Answer, line
from musadoctor.fleet.carry import slurm_site as site
from musadoctor.fleet.carry.errand import Arrived, EngineError, Errand
from musadoctor.fleet.carry.slurm_steps import CALL_SECONDS, Steps, carry_in_steps
from musadoctor.fleet.nodes import NodesError, expand, fold

FREE_SECONDS = 30
"""How long an allocation may take to be granted."""
_QUEUED = re.compile(r"queued and waiting|Pending job allocation|nodes are busy")
"""What salloc says where there are such nodes, but not now."""


class Slurm(NamedTuple):
    """Nodes that Slurm's commands reach."""

    nodelist: str | None = None
    """``gpu[001-064]``; ``None``: all of the partition or the allocation."""
    partition: str | None = None
    """``None``: the default one."""
    gres: str | None = None
    """``gpu:8``. Where Slurm hides cards from jobs that did not ask for them, a report that did not
    ask sees none."""
    options: tuple[str, ...] = ()
    """More of salloc's arguments, or in an allocation of srun's; they win over ours."""
    job: str | None = None
    """The number of the allocation that we are in."""

    @property
    def name(self) -> str:
        """``slurm``."""
        return "slurm"

    def hosts(self) -> Sequence[str]:
        """Every node that is going to be asked or told of, also those that are down.

        Raises:
            EngineError: Slurm does not answer, or has no such nodes.
        """
        return tuple(self._place(threading.Event()).wanted)

    def only(self, hosts: Sequence[str]) -> "Slurm":
        """The same for some of the nodes."""
        return self._replace(nodelist=fold(hosts))

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Ask all nodes that are free at once; each is told of as soon as it has answered.

        Raises:
            EngineError: Slurm is not there, or gives us nothing; with its words.
        """
        for command in ("salloc", "srun", "scancel"):
            site.program(command)
        name = f"musadoctor-{secrets.token_hex(8)}"
        try:
            place = self._place(cancelled)
            usable = _told_unusable(place.wanted, arrived, in_job=self.job is not None)
            if self.job is None:
                try:
                    job = self._allocated(name, place, usable, errand.seconds, arrived, cancelled)
                    carry_in_steps(Steps(name, job.id, ()), job.nodes, errand, arrived, cancelled)
                finally:
                    site.end_jobs(name)
            else:
                gres = (f"--gres={self.gres}",) if self.gres else ()
                steps = Steps(name, self.job, (*gres, *self.options))
                try:
                    carry_in_steps(steps, usable, errand, arrived, cancelled)
                finally:
                    site.end_steps(self.job, name)
        except EngineError:
            if not cancelled.is_set():
                raise

    def _place(self, cancelled: threading.Event) -> "_Place":
        partition = ""
        if self.job is None:
            partition, shown = site.nodes(self.partition, cancelled)
            where = f"in Slurm's partition {line(partition)}"
        elif self.partition is None:
            shown = site.states(site.job_nodes(self.job, cancelled), cancelled)
            where = f"in the allocation of job {line(self.job)}"
        else:
            raise EngineError(
                f"job {line(self.job)} has its nodes: leave --partition out, or unset SLURM_JOB_ID"
            )
        try:
            wanted = tuple(shown) if self.nodelist is None else expand(self.nodelist)
        except NodesError as error:
            raise EngineError(str(error)) from None
        if missing := [name for name in wanted if name not in shown]:
            raise EngineError(f"not {where}: {line(fold(missing))}; see: sinfo --Node")
        return _Place(
            partition,
            {name: shown[name] for name in wanted},
            tuple(name for name in shown if name not in set(wanted)),
        )

    def _allocated(
        self,
        name: str,
        place: "_Place",
        usable: Sequence[str],
        seconds: float,
        arrived: Arrived,
        cancelled: threading.Event,
    ) -> site.Job:
        """Our own job on what is free of the nodes; the others are told."""
        if not usable:
            return site.Job("", ())
        unwanted = [*place.others, *(set(place.wanted) - set(usable))]
        ran = runner.stream(
            [
                *(site.program("salloc"), "--no-shell", "--no-kill", f"--job-name={name}"),
                *(f"--immediate={FREE_SECONDS}", f"--nodes=1-{len(usable)}"),
                *(f"--time={math.ceil((CALL_SECONDS + seconds) / 60) + 1}",),
                f"--partition={place.partition}",
                *([f"--exclude={fold(unwanted)}"] if unwanted else []),
                *([f"--gres={self.gres}"] if self.gres else []),
                *self.options,
            ],
            # A prolog may run on all nodes before it is told to be granted.
            limit=FREE_SECONDS + CALL_SECONDS,
            cancelled=cancelled,
            heard=lambda _: True,
        )
        job = site.job_called(name, cancelled)
        if not job.nodes and ran.status == "failed" and not _QUEUED.search(ran.err):
            raise EngineError(f"Slurm gives us no nodes: {site.words(ran)}")
        if busy := [node for node in usable if node not in job.nodes]:
            jobs = site.jobs_on(busy, cancelled)
            for node in busy:
                has = f": it has job {', '.join(jobs[node])}" if node in jobs else ""
                words = f" ({site.words(ran)})" if ran.status == "failed" else ""
                reason = f"Slurm gives nothing of it now{has}{words}"
                arrived(Answer(node, None, NOT_PLACED, line(reason)))
        return job


class _Place(NamedTuple):
    """Where nodes are looked for."""

    partition: str
    wanted: Mapping[str, site.Node]
    others: tuple[str, ...]


def _told_unusable(
    wanted: Mapping[str, site.Node], arrived: Arrived, *, in_job: bool
) -> tuple[str, ...]:
    """The nodes on which something can be started; the others are told."""
    usable: list[str] = []
    for name, node in wanted.items():
        if reason := node.unusable(in_job=in_job):
            arrived(Answer(name, None, NOT_PLACED, reason))
        else:
            usable.append(name)
    return tuple(usable)
