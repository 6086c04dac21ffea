"""Steps of ``verify`` given directly."""

from musadoctor.facts.steps import Step, Steps, StepState


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


def figures(label: str = "result", /, **changed: object) -> dict[str, object]:
    """What a step tells of a tensor: right, unless changed."""
    told: dict[str, object] = {
        "error": 0.001,
        "ratio": 0.5,
        "not finite": 0,
        "found": 1.25,
        "right": 1.0,
        "allowed": 0.002,
    }
    given = {key.replace("_", " "): value for key, value in changed.items()}
    return {f"{label} {key}": value for key, value in {**told, **given}.items()}
