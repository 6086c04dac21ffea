"""kubectl, and what it tells."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from musadoctor import runner
from musadoctor.fleet.answer import line
from musadoctor.fleet.carry.errand import EngineError
from musadoctor.fleet.carry.kubernetes_state import Object, objects
from musadoctor.report import JSON
from musadoctor.system import Ran

ANSWER_SECONDS = 20.0
"""What one command may take."""
_OF_OURS = re.compile(r'error when creating "[^"]*": ')
"""The name of a file that we made, and that is gone."""
LONGEST_LIST = 256 << 20
"""Bytes of what the API server tells of all nodes or pods; one has some ten thousand."""


class Kubectl(NamedTuple):
    """How kubectl is started: what cluster, and where in it."""

    options: tuple[str, ...]
    namespace: str

    def run(
        self,
        words: Sequence[str],
        cancelled: threading.Event,
        heard: Callable[[bytes], bool],
        limit: float = ANSWER_SECONDS,
    ) -> Ran:
        """Hand on what a command prints.

        Raises:
            EngineError: kubectl is not there.
        """
        program = shutil.which("kubectl")
        if program is None:
            raise EngineError("kubectl is not installed here: install it, and set up its context")
        where = ("--namespace", self.namespace) if self.namespace else ()
        argv = [program, *self.options, *where, *words]
        return runner.stream(argv, limit=limit, cancelled=cancelled, heard=heard)

    def listed(self, words: Sequence[str], cancelled: threading.Event) -> list[Object]:
        """The items of what ``kubectl get`` prints.

        Raises:
            EngineError: there is no such list; with kubectl's words.
        """
        said = bytearray()

        def heard(piece: bytes) -> bool:
            said.extend(piece)
            return len(said) <= LONGEST_LIST

        ran = self.run((*words, "-o", "json"), cancelled, heard)
        try:
            document = cast("JSON", json.loads(said)) if ran.status == "ok" else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise EngineError(f"kubectl {' '.join(words[:2])}: {spoken(ran)}")
        return objects(document, "items")


def spoken(ran: Ran) -> str:
    """What kubectl says last of its failure."""
    said = _OF_OURS.sub("", ran.err).splitlines()
    lines = [one for one in said if not one.startswith("Warning: ")]
    return line("; ".join(lines[-3:])) or ran.note or "what it prints is no answer"
