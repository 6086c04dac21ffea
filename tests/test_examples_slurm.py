"""The files for Slurm, on a real one: nodes are drained with the cause, and jobs end up elsewhere."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_nodes import SlurmNodes

FOLDER = Path(__file__).parent.parent / "examples" / "slurm"
BROKEN = "echo 'broken: driver-not-loaded: the kernel module mtgpu is not loaded'; exit 1"
SAYS_UNKNOWN = "unknown: 1 check of severity error could not decide: runtime-fails"
UNKNOWN = f"echo '{SAYS_UNKNOWN}'; exit 3"
REASON = "musadoctor: driver-not-loaded: the kernel module mtgpu is not loaded"
HEALTHY = "echo healthy"


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Site:
    """Nodes whose Slurm runs the examples."""

    def __init__(self, nodes: SlurmNodes, folder: Path) -> None:
        self.nodes = nodes
        self.folder = folder
        for script in ("prolog.sh", "epilog.sh"):
            shutil.copy(FOLDER / script, folder / script)
        self.stub(HEALTHY, *nodes.names)
        self.settings()

    def settings(self, *more: str) -> None:
        """Write ``/etc/default/musadoctor``, which all nodes share."""
        lines = ["MUSADOCTOR=/run/node/own/musadoctor", *more]
        write = 'mkdir -p /etc/default; printf "%s\\n" "$@" >/etc/default/musadoctor'
        assert self.nodes.lab.run("sh", "-c", write, "sh", *lines).returncode == 0

    def stub(self, script: str, *nodes: str) -> None:
        """Let musadoctor on these nodes be this; what it is asked is kept."""
        for node in nodes:
            asked = 'echo "$*" >>/run/node/own/asked'
            self.nodes.program(node, "musadoctor", f"{asked}\n{script}")

    def asked(self, node: str) -> list[str]:
        """What musadoctor was asked on a node."""
        file = self.nodes.folder / node / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def submit(self, *options: str) -> str:
        """The number of a new job, which tells where it ran."""
        script = f"echo $SLURMD_NODENAME >{self.folder}/$SLURM_JOB_ID"
        said = self.nodes.slurm(
            *("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", script)
        )
        return said.strip()

    def ran_on(self, job: str) -> str:
        """Where a job ran, once it has ended."""
        file = self.folder / job
        until(lambda: file.exists() and file.read_text() and not self.nodes.jobs())
        return file.read_text().strip()


@pytest.fixture
def site(slurm_nodes: SlurmNodes, tmp_path: Path) -> Iterator[Site]:
    yield Site(slurm_nodes, tmp_path)
    slurm_nodes.reconfigure()
    slurm_nodes.lab.run("rm", "/etc/default/musadoctor")


@pytest.fixture
def prolog(site: Site) -> Site:
    # Without the last line a job waits until an administrator releases it.
    site.nodes.reconfigure(
        f"Prolog={site.folder}/prolog.sh", "SchedulerParameters=nohold_on_prolog_fail"
    )
    return site


@pytest.fixture
def epilog(site: Site) -> Site:
    site.nodes.reconfigure(f"Epilog={site.folder}/epilog.sh")
    return site


def test_a_job_runs_on_a_node_that_is_healthy(prolog: Site) -> None:
    assert prolog.ran_on(prolog.submit("-w", "n2")) == "n2"
    assert prolog.asked("n2") == ["--format line --timeout 30"]
    assert prolog.nodes.state("n2") in {"idle", "mixed"}


def test_a_node_that_is_broken_is_drained_and_the_job_runs_on_another(prolog: Site) -> None:
    prolog.stub(BROKEN, "n1", "n2", "n3")
    prolog.nodes.drain("n2", "leave it to n1")
    prolog.nodes.drain("n3", "leave it to n1")
    prolog.nodes.drain("n4", "leave it to n1")
    job = prolog.submit()
    until(lambda: prolog.nodes.state("n1").startswith("drain"))
    assert prolog.nodes.reason("n1") == REASON
    prolog.nodes.slurm("scontrol", "update", "NodeName=n4", "State=RESUME")
    until(lambda: prolog.nodes.state("n1") == "drained")
    # Slurm lets a job wait for two minutes that it has put back.
    prolog.nodes.slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert prolog.ran_on(job) == "n4"


def test_the_reason_is_what_a_real_report_says(prolog: Site) -> None:
    prolog.nodes.record("n1", "no-driver")
    prolog.nodes.record("n2", "s5000-4.3.5")
    prolog.submit("-w", "n1")
    until(lambda: prolog.nodes.state("n1").startswith("drain"))
    reason = prolog.nodes.reason("n1")
    assert reason.startswith(
        "musadoctor: driver-not-loaded: the kernel module mtgpu is not loaded: "
    )
    assert len(reason) <= 200 + len("musadoctor: ")
    until(prolog.nodes.jobs)
    prolog.nodes.slurm("scancel", "--user=root")
    assert prolog.ran_on(prolog.submit("-w", "n2")) == "n2"


@pytest.mark.parametrize("script", [UNKNOWN, "exec sleep 1000", "exit 4", "exit 127"])
def test_what_is_not_known_does_not_drain_a_node_nor_hold_its_job_for_long(
    prolog: Site, script: str
) -> None:
    prolog.settings("MUSADOCTOR_SECONDS=1")
    prolog.stub(script, "n3")
    assert prolog.ran_on(prolog.submit("-w", "n3")) == "n3"
    assert prolog.asked("n3") == ["--format line --timeout 1"]
    assert not prolog.nodes.state("n3").startswith("drain")
    until(lambda: "sleep 1000" not in prolog.nodes.running("n3"))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (UNKNOWN, f"musadoctor: {SAYS_UNKNOWN}"),
        ("exit 4", "musadoctor: ended with 4 and said nothing"),
    ],
)
def test_what_is_not_known_drains_a_node_where_that_is_wanted(
    prolog: Site, script: str, reason: str
) -> None:
    prolog.settings("MUSADOCTOR_STRICT=1", "MUSADOCTOR_ARGUMENTS='--ignore iommu-on'")
    prolog.stub(script, "n3")
    prolog.submit("-w", "n3")
    until(lambda: prolog.nodes.state("n3").startswith("drain"))
    assert prolog.nodes.reason("n3") == reason
    assert prolog.asked("n3") == ["--format line --timeout 30 --ignore iommu-on"]


def test_a_node_that_a_job_has_left_broken_is_drained_and_the_job_is_done(epilog: Site) -> None:
    epilog.stub(BROKEN, "n2")
    assert epilog.ran_on(epilog.submit("-w", "n2")) == "n2"
    until(lambda: epilog.nodes.state("n2") == "drained")
    assert epilog.nodes.reason("n2") == REASON
    assert epilog.ran_on(epilog.submit("-w", "n1")) == "n1"
    assert not epilog.nodes.state("n1").startswith("drain")


@pytest.mark.parametrize("script", [BROKEN, HEALTHY])
def test_what_an_administrator_has_drained_stays_as_it_was_said(epilog: Site, script: str) -> None:
    epilog.stub(script, "n2")
    go = epilog.folder / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    epilog.nodes.slurm("sbatch", "--output=/dev/null", "-w", "n2", "--wrap", wait)
    until(lambda: epilog.nodes.running("n2"))
    epilog.nodes.drain("n2", "new fans on Monday")
    go.touch()
    until(lambda: epilog.asked("n2") and not epilog.nodes.jobs())
    assert epilog.nodes.state("n2") == "drained"
    assert epilog.nodes.reason("n2") == "new fans on Monday"


def test_idle_nodes_are_examined_too_where_that_is_set_up(site: Site) -> None:
    site.stub(BROKEN, "n4")
    site.nodes.reconfigure(f"HealthCheckProgram={site.folder}/prolog.sh", "HealthCheckInterval=1")
    until(lambda: site.nodes.state("n4") == "drained")
    assert site.nodes.reason("n4") == REASON
    assert not site.nodes.state("n1").startswith("drain")


def submit_healthy(site: Site, needed: int) -> tuple[str, str]:
    """What the job of the example printed, and how it ended."""
    out = site.folder / "out"
    job = site.nodes.slurm(
        *("sbatch", "--parsable", "--nodes=4", f"--output={out}"),
        *(str(FOLDER / "healthy.sbatch"), str(needed), "sh", "-c", "echo on $SLURMD_NODENAME"),
    ).strip()
    until(lambda: not site.nodes.jobs())
    shown = site.nodes.slurm("scontrol", "show", "job", job)
    return out.read_text(), shown.partition("JobState=")[2].split()[0]


def test_a_job_starts_on_the_healthy_nodes_of_its_allocation(site: Site) -> None:
    for node in site.nodes.names:
        site.nodes.record(node, "s5000-4.3.5")
    site.nodes.record("n2", "no-driver")
    printed, state = submit_healthy(site, 3)
    assert sorted(printed.splitlines()) == ["on n1", "on n3", "on n4", "starting on n1,n3,n4"]
    assert state == "COMPLETED"
    printed, state = submit_healthy(site, 2)
    assert "starting on n1,n3\n" in printed
    printed, state = submit_healthy(site, 4)
    assert printed.endswith("the whole story: musadoctor fleet run --via slurm\n")
    assert "on n" not in printed
    assert state == "FAILED"
