"""A long run on all devices at once, watched by the management tool."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from musadoctor.commands import GMI_NAMES, Command, gmi_json
from musadoctor.facts.steps import Step
from musadoctor.system import System
from musadoctor.verify.children.soak import NAME
from musadoctor.verify.taken import Job, take

MODULES = ("throughput", "soak")
SAMPLES = 24
"""How often the tool is asked, at the most."""
SHORTEST = 0.5
"""Seconds between two questions, at the least."""
_TEMPERATURE = re.compile(r'"GPU Current Temp"\s*:\s*"(\d+)\s*C"')


def soak_steps(
    system: System, interpreter: str, kind: str, devices: tuple[str, ...], seconds: float
) -> Iterator[Step]:
    """The run on each device, then how warm the cards were."""
    over = threading.Event()
    samples: list[tuple[int, ...]] = []
    watch = threading.Thread(target=lambda: samples.extend(_watch(system, seconds, over)))
    watch.start()
    options = {"soak_seconds": seconds}
    jobs = [
        Job(f"soak:{device}", MODULES, ((device, NAME),), 2 * seconds + 300) for device in devices
    ]

    def run(job: Job) -> tuple[Step, ...]:
        return take(system, interpreter, kind, job, options)

    with ThreadPoolExecutor(len(jobs)) as pool:
        taken = list(pool.map(run, jobs))
    over.set()
    watch.join()
    for steps in taken:
        yield from steps
    yield _temperature(samples)


def _watch(system: System, seconds: float, over: threading.Event) -> Iterator[tuple[int, ...]]:
    program = next((name for name in GMI_NAMES if _is_there(system, name)), None)
    for number in range(SAMPLES if program else 0):
        assert program is not None
        asked: Command = gmi_json(program)
        # A recording keeps one answer to a question: each of these is one of its own.
        ran = system.run(asked._replace(key=f"{asked.key} (soak {number})"))
        found = tuple(map(int, _TEMPERATURE.findall(ran.out)))
        if found:
            yield found
        if not ran.started or over.wait(max(SHORTEST, seconds / SAMPLES)):
            return


def _is_there(system: System, name: str) -> bool:
    found = system.find(name)
    return bool(getattr(found, "path", ""))


def _temperature(samples: list[tuple[int, ...]]) -> Step:
    name = "soak: temperature"
    if not samples:
        return Step("host", name, "skipped", {}, "the management tool tells no temperature")
    cards = {
        str(card): f"{values[0]} C at first, {max(values)} C at most, {values[-1]} C at last"
        for card, values in enumerate(zip(*samples, strict=False))
    }
    return Step("host", name, "done", {"cards": cards})
