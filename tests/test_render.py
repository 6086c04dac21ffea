"""Whole outputs of the renderers, for one report that has everything in it."""

import io
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from musadoctor.api import Check, Finding, Fix, Judgement, Layer, Severity, check
from musadoctor.plugins import Loaded, PluginFailure, plugin_broken
from musadoctor.redact import Redaction
from musadoctor.render import json as json_renderer
from musadoctor.render.checks import explanation, listing, listing_json
from musadoctor.render.text import TextReport, render
from musadoctor.report import Bug, Evidence, Report, Result, Vantage

OUTPUTS = Path(__file__).parent / "outputs"
DOCS = Path(__file__).parent.parent / "docs"


def made(
    id: str,
    layer: Layer,
    severity: Severity = "error",
    *aliases: str,
    follows_from: Layer | None = None,
) -> Check:
    def function(gpus: int) -> Judgement:
        yield from ()

    function.__doc__ = f"""The title of {id}.

    ## Why it matters

    Because.

    ## How to fix

        indented command
    """
    function.__module__ = f"musadoctor_checks.{layer}"
    return check(id, layer=layer, severity=severity, follows_from=follows_from, aliases=aliases)(
        function
    )


LONG = (
    "torch 2.4.1+cu121 in /opt/env/lib/python3.10/site-packages/torch is a CUDA build, as "
    "torch/version.py (cuda = '12.1') and 14 nvidia-* packages in its Requires-Dist say"
)
FULL = Report(
    Vantage("host", None, "Python 3.10.12 (/opt/env/bin/python, VIRTUAL_ENV)"),
    (
        Result(plugin_broken, "unknown", reason="acme, named in acme.dist-info: ImportError: x"),
        Result(
            made("machine-odd", Layer.MACHINE),
            "passed",
            evidence=(Evidence("machine", "Ubuntu 22.04.4 LTS, kernel 5.15.0-105-generic, x86_64"),),
        ),
        Result(made("no-gpu", Layer.HARDWARE), "passed", evidence=(Evidence("gpus", "8 x MTT S5000 (sysfs)"),)),
        Result(
            made("iommu", Layer.HARDWARE, "warning"),
            "unknown",
            reason="no table names it",
        ),
        Result(made("gmi-fails", Layer.DRIVER), "unknown", reason="mthreads-gmi: no answer in 10 s, killed"),
        Result(made("gmi-slow", Layer.DRIVER), "unknown", reason="mthreads-gmi: no answer in 10 s, killed"),
        Result(made("container-bare", Layer.CONTAINER), "skipped", reason="not in a container"),
        Result(made("mcc-odd", Layer.TOOLKIT), "passed", evidence=(Evidence("mcc", "mcc 5.2.0"),)),
        Result(
            made("stale-entry", Layer.ENVIRONMENT, "warning"),
            "failed",
            (
                Finding("/usr/local/musa-4.2.0/lib is not there", "LD_LIBRARY_PATH", Fix("Remove it")),
                Finding("so is /opt/old"),
            ),
        ),
        Result(
            made("nccl-noop", Layer.ENVIRONMENT, "note"),
            "failed",
            (Finding("NCCL_DEBUG=INFO has no effect", "NCCL_DEBUG", Fix("Set MCCL_DEBUG")),),
        ),
        Result(
            made("torch-not-musa", Layer.TORCH),
            "failed",
            (
                Finding(
                    LONG,
                    "torch/version.py",
                    Fix(
                        "Put the vendor's pair back; this removes the CUDA build",
                        ("pip uninstall -y torch", "pip install torch==2.7.1 torch_musa==2.7.1"),
                        destructive=True,
                    ),
                ),
            ),
        ),
        Result(
            made("torch-crashing", Layer.TORCH),
            "failed",
            (Finding("found before the crash"),),
            reason="a bug in musadoctor: the check itself failed with ZeroDivisionError: ",
            traceback="Traceback",
        ),
        Result(
            made("import-fails", Layer.TORCH_MUSA, follows_from=Layer.DRIVER),
            "failed",
            (Finding("ImportError: undefined symbol"),),
            caused_by="torch-not-musa",
        ),
        Result(made("mccl-less", Layer.COLLECTIVES), "skipped", reason="import torch_musa failed: undefined symbol"),
        Result(made("pcie-slow", Layer.HARDWARE, "note"), "skipped", reason="ignored: old risers"),
    ),
    {"gpus": {"absent": "none"}},
    (Bug("check torch-crashing", "Traceback (most recent call last):\n  ZeroDivisionError\n"),),
    5.43,
)  # fmt: skip
HEALTHY = FULL._replace(
    results=tuple(r for r in FULL.results if r.status == "passed"), bugs=(), seconds=0.14
)


class Screen(io.StringIO):
    """A stream of a kind."""

    def __init__(self, *, terminal: bool = False, encoding: str = "utf-8") -> None:
        super().__init__()
        self._terminal = terminal
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


def same(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = OUTPUTS / name
    if request.config.getoption("--update"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "report", "width", "options", "screen"),
    [
        ("default.txt", FULL, 80, {}, Screen()),
        ("verbose.txt", FULL, 100, {"verbose": True}, Screen()),
        ("quiet.txt", FULL, 80, {"quiet": True}, Screen()),
        ("narrow.txt", FULL, 30, {}, Screen()),
        ("ascii.txt", FULL, 80, {}, Screen(encoding="ascii")),
        ("no-such-encoding.txt", HEALTHY, 80, {}, Screen(encoding="no such encoding")),
        ("healthy.txt", HEALTHY, 80, {}, Screen()),
        ("healthy-quiet.txt", HEALTHY, 80, {"quiet": True}, Screen()),
        ("colour.txt", FULL, 80, {}, Screen(terminal=True)),
    ],
)
def test_text(
    name: str,
    report: Report,
    width: int,
    options: dict[str, bool],
    screen: Screen,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    screen.truncate(0)
    screen.seek(0)
    render(report, screen, **options)
    same(name, screen.getvalue(), request)


def test_no_color_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(terminal=True)
    render(FULL, screen)
    assert "\x1b[3" not in screen.getvalue()


def test_quiet_says_why_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    unsure = FULL._replace(results=FULL.results[:7], bugs=())
    screen = Screen()
    render(unsure, screen, quiet=True)
    assert screen.getvalue().splitlines() == [
        "Not known",
        " ?  mthreads-gmi: no answer in 10 s, killed",
        "    undecided: gmi-fails, gmi-slow",
        "unknown: 4 undecided, 2 passed, 5.4 s",
    ]


def test_layers_are_printed_as_they_come_and_redacted() -> None:
    screen, status = Screen(), Screen(terminal=True)
    printer = TextReport(screen, redaction=Redaction("/home/alice", None), status=status)
    private = Result(
        made("x", Layer.PYTHON),
        "passed",
        evidence=(Evidence("python", "Python in /home/alice/env"),),
    )
    printer.decided(Layer.PYTHON, [private])
    assert "Python in ~/env" in screen.getvalue()
    printer.waiting(["torch_import", "torch_musa", "gmi_answer"], 0.4)
    assert "waiting" not in status.getvalue()
    printer.waiting(["torch_import", "torch_musa", "gmi_answer"], 6.2)
    assert status.getvalue().endswith("\r\x1b[Kwaiting for torch, mthreads-gmi, 6 s")
    printer.finish(HEALTHY)
    assert status.getvalue().endswith("\r\x1b[K")


def test_the_live_line_fits_the_narrowest_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    status = Screen(terminal=True)
    TextReport(Screen(), status=status).waiting(["user_driver"], 6.2)
    assert status.getvalue() == "\r\x1b[Kwaiting for use, 6 s"


def test_no_escape_reaches_the_terminal() -> None:
    screen = Screen()
    evil = Result(
        made("x", Layer.ENVIRONMENT),
        "failed",
        (Finding("MUSA_HOME=/x\x1b[31m", fix=Fix("Unset it", ("unset \x1b]0;y\x07",))),),
    )
    render(HEALTHY._replace(results=(evil,)), screen)
    assert "MUSA_HOME=/x\ufffd[31m" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


def test_the_live_line_needs_a_terminal() -> None:
    status = Screen()
    printer = TextReport(Screen(), status=status)
    printer.waiting(["torch"], 6)
    assert status.getvalue() == ""


def test_json(request: pytest.FixtureRequest) -> None:
    text = json_renderer.render(FULL)
    document = json.loads(text)
    Draft202012Validator(json.loads((DOCS / "report.schema.json").read_text())).validate(document)
    document["musadoctor"] = "0.0.0"
    same("report.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n", request)


LOADED = Loaded(
    (
        made("gmi-fails", Layer.DRIVER, "error", "gmi-broken", follows_from=Layer.DRIVER),
        made("no-gpu", Layer.HARDWARE),
    ),
    (PluginFailure("acme", "acme.dist-info", "ImportError: x"),),
)


def test_the_list_of_checks() -> None:
    assert listing(LOADED) == (
        "hardware\n"
        "  no-gpu     error    The title of no-gpu\n"
        "\n"
        "driver\n"
        "  gmi-fails  error    The title of gmi-fails\n"
        "\n"
        "not loaded: acme (acme.dist-info): ImportError: x\n"
    )
    row = json.loads(listing_json(LOADED))[0]
    assert row == {
        "id": "gmi-fails",
        "family": "driver",
        "layer": "driver",
        "severity": "error",
        "title": "The title of gmi-fails",
        "facts": ["gpus"],
        "aliases": ["gmi-broken"],
        "docs_url": "https://github.com/musadoctor/musadoctor/blob/main/docs/checks/gmi-fails.md",
    }


def test_an_explanation(request: pytest.FixtureRequest) -> None:
    same("explanation.md", explanation(LOADED.checks[0]), request)
    foreign = made("rack", Layer.HARDWARE)
    foreign.function.__module__ = "acme_checks.rack"
    assert json.loads(listing_json(Loaded((foreign,), ())))[0]["docs_url"] == ""
    assert "Judges nothing" in explanation(plugin_broken)


def test_a_recording_is_named() -> None:
    screen = Screen()
    recording = HEALTHY._replace(vantage=Vantage("recording", None, None, "host.json, taken today"))
    render(recording, screen)
    assert screen.getvalue().splitlines()[0].endswith(" on host.json, taken today")


def test_a_layer_of_ignored_checks_has_no_line() -> None:
    ignored = Result(made("pcie-slow", Layer.HARDWARE), "skipped", reason="ignored: old risers")
    for verbose in (False, True):
        screen = Screen()
        render(HEALTHY._replace(results=(ignored,)), screen, verbose=verbose)
        assert "hardware" not in screen.getvalue()
