"""One call from settings to a report."""

from musadoctor.doctor import Options, examine
from musadoctor.engine import Progress
from musadoctor.plugins import Loaded, load_verify
from musadoctor.probes import PROBES
from musadoctor.report import Report
from musadoctor.system import System
from musadoctor.verify.phases import Settings, probes


def verify(
    system: System, settings: Settings, options: Options, progress: Progress | None = None
) -> Report:
    """Take the steps and judge them.

    Raises:
        SelectionError: the options name a check that is not there, or leave none.
    """
    return examine(
        system,
        options,
        progress,
        loaded=Loaded(load_verify(), ()),
        probes={**PROBES, **probes(settings)},
    )
