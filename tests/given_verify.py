"""Steps of ``verify`` given directly."""

from musadoctor.facts import Step, Steps
from musadoctor.facts.steps import StepState


def step(
    name: str,
    device: str = "musa:0",
    state: StepState = "done",
    message: str = "",
    /,
    **value: object,
) -> Step:
    """One step; what is named is what it measured."""
    return Step(device, name, state, value, message)


def steps(*items: Step) -> Steps:
    """A phase."""
    return Steps(items, "/opt/venv/bin/python3")
