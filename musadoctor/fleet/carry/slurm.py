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
    """The number of the allocation that we are in (``SLURM_JOB_ID``)."""
    allocated: str | None = None
    """The nodes that it was given (``SLURM_JOB_NODELIST``); some of them it may have lost since."""

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

    def address(self, host: str) -> str:
        """Its name: Slurm's nodes have to know each other by their names."""
        return host

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
            for node, why in place.wanted.items():
                if why:
                    arrived(Answer(node, None, NOT_PLACED, why))
            usable = tuple(node for node, why in place.wanted.items() if not why)
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
        if self.job is not None:
            return self._place_in_job(self.job, cancelled)
        partition, nodes = site.nodes(self.partition, cancelled)
        wanted = _expanded(self.nodelist) if self.nodelist else tuple(nodes)
        if missing := [name for name in wanted if name not in nodes]:
            where = f"Slurm's partition {line(partition)}"
            raise EngineError(f"not in {where}: {line(fold(missing))}; see: sinfo --Node")
        unusable = {name: nodes[name].unusable(in_job=False) for name in wanted}
        usable = {name for name, why in unusable.items() if not why}
        return _Place(unusable, partition, tuple(name for name in nodes if name not in usable))

    def _place_in_job(self, job: str, cancelled: threading.Event) -> "_Place":
        if self.partition is not None:
            raise EngineError(
                f"job {line(job)} has its nodes: leave --partition out, or unset SLURM_JOB_ID"
            )
        has = site.job_nodes(job, cancelled)
        listed = self.nodelist or self.allocated
        wanted = _expanded(listed) if listed else has
        states = site.states(wanted, cancelled)
        unusable = {name: f"job {line(job)} does not have it" for name in wanted}
        unusable |= {
            name: states[name].unusable(in_job=True) if name in states else ""
            for name in has
            if name in unusable
        }
        return _Place(unusable, "", ())

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
        ran = runner.stream(
            [
                *(site.program("salloc"), "--no-shell", "--no-kill", f"--job-name={name}"),
                *(f"--immediate={FREE_SECONDS}", f"--nodes=1-{len(usable)}"),
                *(f"--time={math.ceil((CALL_SECONDS + seconds) / 60) + 1}",),
                f"--partition={place.partition}",
                *([f"--exclude={fold(place.unwanted)}"] if place.unwanted else []),
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

    wanted: Mapping[str, str]
    """Each, and why nothing can be started on it, or ``""``."""
    partition: str
    unwanted: tuple[str, ...]
    """What else is in the partition, and what cannot be used of it."""


def _expanded(listed: str) -> tuple[str, ...]:
    try:
        return expand(listed)
    except NodesError as error:
        raise EngineError(str(error)) from None
