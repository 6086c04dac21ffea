"""The audit of what leaves the device: its own logic, and on a real torch with the stand-in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from given_verify import step, steps
from hypothesis import given
from hypothesis import strategies as st
from verify_steps import taken, value

from musadoctor.render.audit import render
from musadoctor.report import JSON, encode
from musadoctor.verify.children.fallback import (
    OWN,
    Event,
    Row,
    Table,
    item_size,
    leaving,
    paired,
    read_table,
    required,
    state_of,
    tensors,
    walk,
)

# As torch 2.13 prints it.
TABLE = """\
Undefined: registered at /pytorch/build/RegisterCompositeExplicitAutogradNonFunctional_0.cpp:7 [default backend kernel]
CPU: registered at /pytorch/build/aten/src/ATen/RegisterCPU_0.cpp:3234 [kernel]
CUDA: registered at /pytorch/build/RegisterCompositeExplicitAutogradNonFunctional_0.cpp:7 [default backend kernel]
PrivateUse1: registered at /torch_musa/csrc/aten/ops/Mm.cpp:9 [kernel]
AutogradPrivateUse1: registered at /pytorch/torch/csrc/autograd/VariableType_0.cpp:1 [autograd kernel]
"""


@pytest.mark.parametrize(
    ("text", "key", "table"),
    [
        (TABLE, "PrivateUse1", Table("kernel", "kernel", structured=False)),
        (TABLE, "CUDA", Table("default backend kernel", "kernel", structured=True)),
        (TABLE, "CPU", Table("kernel", "kernel", structured=False)),
        (TABLE, "XPU", Table("", "kernel", structured=False)),
        ("CPU: registered at x [kernel]", "CPU", Table("kernel", "kernel", structured=False)),
        ("CPU: of another form\nCUDA: [math kernel", "CUDA", Table("math kernel", "", False)),
        ("", "CPU", Table("", "", structured=False)),
    ],
)
def test_tables(text: str, key: str, table: Table) -> None:
    assert read_table(text, key) == table


@given(st.text(alphabet="CPUDA:[] \nkernel") | st.text())
def test_any_table_is_read(text: str) -> None:
    for key in ("CPU", "PrivateUse1"):
        found = read_table(text, key)
        assert not set(found.here) & set("[]\n") or "[" in text or "]" in text
        assert (found.here == found.on_cpu) or key != "CPU"


@pytest.mark.parametrize(
    ("name", "table", "state"),
    [
        ("aten::mm.out", Table("kernel", "kernel", structured=False), "covered"),
        ("aten::sdpa", Table("math kernel", "math kernel", structured=False), "composite"),
        ("aten::topk", Table("backend fallback", "kernel", structured=False), "falls back"),
        ("aten::topk", Table("", "kernel", structured=False), "missing"),
        ("aten::cudnn_convolution", Table("backend fallback", "", structured=False), "elsewhere"),
        ("aten::cudnn_convolution", Table("", "", structured=False), "elsewhere"),
        ("aten::new", Table("a word of a later torch", "kernel", structured=False), "covered"),
    ],
)
def test_states(name: str, table: Table, state: str) -> None:
    assert state_of(name, table, "PrivateUse1") == state


def test_what_only_says_that_it_is_not_implemented() -> None:
    table = Table("default backend kernel", "default backend kernel", structured=False)
    name = "aten::convolution_overrideable"
    assert state_of(name, table, "PrivateUse1") == "missing"
    assert state_of(name, table, "CUDA") == "elsewhere"
    attention = "aten::_scaled_dot_product_fused_attention_overrideable"
    assert state_of(attention, table, "PrivateUse1") == "elsewhere"
    own = table._replace(here="kernel")
    assert state_of(name, own, "PrivateUse1") == "covered"


class Argument(NamedTuple):
    name: str
    is_out: bool = False


class Schema(NamedTuple):
    name: str
    overload_name: str
    arguments: tuple[Argument, ...]


SELF, OTHER, OUT = Argument("self"), Argument("other"), Argument("out", is_out=True)


def test_forms_of_one_operator() -> None:
    schemas = [
        Schema("aten::add", "Tensor", (SELF, OTHER)),
        Schema("aten::add_", "Tensor", (SELF, OTHER)),
        Schema("aten::add", "out", (SELF, OTHER, OUT)),
        Schema("aten::relu", "", (SELF,)),
        Schema("aten::relu", "out", (SELF, OUT)),
        Schema("aten::lone", "", (SELF,)),
        Schema("aten::__and__", "Tensor", (SELF, OTHER)),
        Schema("prim::unknown", "", (SELF,)),
    ]
    own, calls = Table("kernel", "kernel", False), Table("default backend kernel", "kernel", True)
    generated = calls._replace(structured=False)
    tables = {
        "aten::add.Tensor": calls,
        "aten::add_.Tensor": calls,
        "aten::add.out": own,
        "aten::relu": own,
        "aten::relu.out": generated,
        "aten::lone": calls,
        "aten::__and__.Tensor": generated,
    }
    assert dict(paired(schemas, tables)) == {
        "aten::add.Tensor": "aten::add.out",
        "aten::add_.Tensor": "aten::add.out",
        "aten::relu.out": "aten::relu",
    }


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("mm", "covered"),
        ("torch.mm", "covered"),
        ("torch.ops.aten.mm", "covered"),
        ("aten::mm", "covered"),
        ("aten::mm.dtype", "elsewhere"),
        ("add", "falls back"),
        ("add.Tensor", "covered"),
        ("cudnn", "elsewhere"),
        ("vllm::rms_norm", "missing"),
        ("ad", "no such operator"),
        ("aten::nothing", "no such operator"),
    ],
)
def test_required_by_name(name: str, state: str) -> None:
    states = {
        "aten::mm": "covered",
        "aten::mm.dtype": "elsewhere",
        "aten::add.Tensor": "covered",
        "aten::add.Scalar": "falls back",
        "aten::add.special": "elsewhere",
        "aten::cudnn.a": "elsewhere",
        "vllm::rms_norm": "missing",
    }
    assert required(name, states) == state


def event(name: str, *children: Event, on: tuple[str, ...] = (), seconds: float = 1.0) -> Event:
    return Event(name, seconds, tuple((kind, 8) for kind in on), children)


DOWN = event("aten::copy_", on=("cpu", "musa"))
UP = event("aten::copy_", on=("musa", "cpu"))
TO_CPU = event("aten::_to_cpu", event("aten::to", event("aten::_to_copy", DOWN)))
HOME = event("aten::_copy_from_and_resize", event("aten::copy_"), on=("cpu", "musa"))


@pytest.mark.parametrize(
    ("events", "rows", "seconds"),
    [
        # The dispatcher's fallback: all there, the result back.
        ((event("aten::topk", TO_CPU, HOME),), {"aten::topk": Row(1, 1.0, 16)}, 1.0),
        # By hand, in a kernel; a copy within another one is the same copy.
        (
            (
                event(
                    "aten::sort", event("aten::to", event("aten::copy_", DOWN, on=("cpu", "musa")))
                ),
            ),
            {"aten::sort": Row(1, 1.0, 8)},
            1.0,
        ),
        # The innermost operator is the one; backward passes stand between.
        (
            (
                event(
                    "autograd::engine::evaluate_function: TopkBackward0",
                    event("aten::outer", event("aten::inner", TO_CPU, seconds=0.5), seconds=0.75),
                    event("aten::inner", TO_CPU, UP, seconds=0.25),
                ),
            ),
            {"aten::inner": Row(2, 0.75, 24)},
            0.75,
        ),
        # What goes up only does not leave, and what stays on one side is no copy of this kind.
        (
            (
                event("aten::index", UP),
                event("aten::clone", event("aten::copy_", on=("musa",) * 2)),
            ),
            {},
            0,
        ),
        # The program's own.
        ((event("aten::to", event("aten::_to_copy", DOWN)), UP), {OWN: Row(2, 0.0, 16)}, 0),
        # Of another device.
        ((event("aten::topk", event("aten::copy_", on=("cpu", "cuda"))),), {}, 0),
    ],
)
def test_what_leaves(events: tuple[Event, ...], rows: dict[str, Row], seconds: float) -> None:
    found: dict[str, Row] = {}
    assert leaving(Event("", 9.0, (), events), OWN, "musa", found) == seconds
    if OWN in rows:
        assert found.pop(OWN).copied_bytes == rows.pop(OWN).copied_bytes
    assert found == rows


def test_all_events() -> None:
    assert [e.name for e in walk((TO_CPU,))] == [
        *("aten::_to_cpu", "aten::to", "aten::_to_copy", "aten::copy_"),
    ]


class Metadata(NamedTuple):
    device: str
    sizes: list[int]
    dtype: str


def test_tensors_of_arguments() -> None:
    one, two = Metadata("musa:1", [2, 3], "torch.float32"), Metadata("cpu", [], "torch.bool")
    assert list(tensors([one, None, 3.0, [two, one], [1, 2]])) == [
        ("musa", 24),
        ("cpu", 1),
        ("musa", 24),
    ]
    assert [item_size(f"torch.{name}") for name in ("int64", "bfloat16", "uint8", "bool")] == [
        *(8, 2, 1, 1),
    ]


# ---- on a real torch -------------------------------------------------------------------------

MODEL = """\
import torch

calls = []

def step(device):
    calls.append(device)
    x = torch.arange(12.0).to(device)
    y = (x + x).topk(3).values
    return y.cpu()

class Train:
    @staticmethod
    def plain(times=2):
        return step("musa:0") if len(calls) < times else 1 / 0
"""


@pytest.fixture
def site(tmp_path: Path, fake_musa: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model, for an interpreter with the stand-in."""
    (tmp_path / "my_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    # Behind it whatever lets this interpreter find musadoctor.
    monkeypatch.setenv("PYTHONPATH", f"{fake_musa}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
    return tmp_path


@pytest.mark.torch
def test_a_device_with_kernels_of_its_own(torch_python: str, site: Path) -> None:
    options = {
        "audit": "my_model:Train.plain",
        "require": ["mm", "scaled_dot_product_attention", "aten::add.Tensor", "nothing"],
    }
    found = taken(torch_python, "musa", ("fallback",), "default", devices=2, options=options)
    assert {name.partition(" ")[0] for name in found} == {"musa:0"}
    static = value(found["musa:0 fallback: static"])
    assert static["key"] == "PrivateUse1"
    assert static["operators"] > 2000
    assert static["covered"] > 500
    assert static["falls_back"] == []
    assert static["missing"] == []
    assert static["required"] == {
        "mm": "covered",
        "scaled_dot_product_attention": "composite",
        "aten::add.Tensor": "covered",
        "nothing": "no such operator",
    }
    common = value(found["musa:0 fallback: common operators"])
    assert (common["missing"], common["failed"], common["operators"]) == ({}, {}, [])
    assert common["tried"] > 100
    for name in ("transformer", "convnet"):
        model = value(found[f"musa:0 fallback: model {name}"])
        assert (model["operators"], model["leaving"], model["share"]) == ([], 0, 0.0)
        assert model["calls_on_device"] > 100
        assert model["peak_bytes"] > 0
    own = value(found["musa:0 fallback: model own"])
    assert (own["function"], own["operators"]) == ("my_model:Train.plain", [])
    assert own["own_bytes"] == 12 * 4 + 3 * 4
    assert own["calls_on_device"] > 2


@pytest.mark.torch
def test_operators_that_leave(
    torch_python: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MUSA_FALLS_BACK", "aten::topk,aten::max_pool2d_with_indices")
    monkeypatch.setenv("FAKE_MUSA_COPIES", "aten::add.Tensor")
    monkeypatch.setenv("FAKE_MUSA_MISSING", "aten::cumsum,aten::native_layer_norm,aten::gelu")
    monkeypatch.setenv("FAKE_MUSA_RAISE", "aten::sort")
    options = {"audit": "my_model:step", "require": ["topk", "cumsum", "add.Tensor", "mul"]}
    found = taken(torch_python, "musa", ("fallback",), "default", options=options)
    static = value(found["musa:0 fallback: static"])
    assert {"topk", "topk.values", "max_pool2d_with_indices"} <= set(static["falls_back"])
    assert static["required"] == {
        "topk": "falls back",
        "cumsum": "falls back",  # with any fallback what is missing is led there
        "add.Tensor": "covered",
        "mul": "composite",  # with a number it is made of others
    }
    own = value(found["musa:0 fallback: model own"])
    rows = {row["operator"]: row for row in own["operators"]}
    assert set(rows) == {"aten::topk", "aten::add"}
    assert rows["aten::add"]["count"] == 1
    assert rows["aten::add"]["bytes"] == 3 * 12 * 4  # two there, one back
    assert rows["aten::topk"]["bytes"] >= 12 * 4
    assert 0 < rows["aten::topk"]["share"] <= own["share"] <= 1
    convnet = value(found["musa:0 fallback: model convnet"])
    assert "aten::max_pool2d_with_indices" in {row["operator"] for row in convnet["operators"]}
    common = value(found["musa:0 fallback: common operators"])
    assert {"sort", "argsort"} <= set(common["failed"])
    assert "the kernel of aten::sort" in common["failed"]["sort"]


@pytest.mark.torch
def test_operators_that_are_missing(
    torch_python: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MUSA_MISSING", "aten::topk,aten::gelu")
    options = {"audit": "my_model:step", "require": ["topk"]}
    found = taken(torch_python, "musa", ("fallback",), "default", options=options)
    static = value(found["musa:0 fallback: static"])
    assert {"topk", "gelu"} <= set(static["missing"])
    assert static["required"] == {"topk": "missing"}
    common = value(found["musa:0 fallback: common operators"])
    assert set(common["missing"]) == {"topk", "gelu"}
    for name, operator in (("own", "topk"), ("transformer", "gelu")):
        model = found[f"musa:0 fallback: model {name}"]
        assert model.state == "missing"
        assert operator in model.message
    assert found["musa:0 fallback: model convnet"].state == "done"


@pytest.mark.torch
def test_a_cpu(torch_python: str, site: Path) -> None:
    found = taken(
        torch_python, "cpu", ("fallback",), "default", options={"audit": "no_such_module:step"}
    )
    static = value(found["cpu fallback: static"])
    assert (static["missing"], static["falls_back"]) == ([], [])
    for name in ("common operators", "model transformer", "model convnet"):
        assert found[f"cpu fallback: {name}"].state == "skipped"
    own = found["cpu fallback: model own"]
    assert (own.state, own.message) == (
        "failed",
        "ModuleNotFoundError: No module named 'no_such_module'",
    )


def verify(torch_python: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "musadoctor", "verify", "--quick", "--python", torch_python]
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.torch
def test_the_command(torch_python: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MUSA_FALLS_BACK", "aten::topk")
    (site / "ops.txt").write_text("# what the model needs\nmm\n\ntopk  # routing\nmm\n")
    named = ("--audit", "my_model:step", "--require-ops", "ops.txt", "--select", "fallback")
    done = verify(torch_python, *named, "--json")
    # What the profiler prints is not in it.
    report: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    results = {result["id"]: result for result in report["results"]}
    (finding,) = results["required-operator-off-device"]["findings"]
    assert finding["where"] == "topk"
    (finding,) = results["model-leaves-device"]["findings"]
    assert "my_model:step: 1 operators leave the device in 1 calls" in finding["message"]
    table = render(report["facts"]["device_steps"])
    assert "musa:0: my_model:step: 1 operators leave the device, " in table
    assert "\n  aten::topk        1 " in table

    done = verify(torch_python, *named, "--device", "cpu")
    assert "required operator" not in done.stdout
    assert "\ncpu: static: of 3" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--audit", "my_model"), "--audit my_model: expected MODULE:FUNCTION, as in train:step"),
        (("--audit", ":step"), "--audit :step: expected MODULE:FUNCTION, as in train:step"),
        (("--require-ops", "none.txt"), "cannot read none.txt: No such file or directory"),
        (("--require-ops", "."), "cannot read .: Is a directory"),
        (("--require-ops", "bytes.txt"), "cannot read bytes.txt: 'utf-8' codec can't decode"),
        (("--require-ops", "empty.txt"), "empty.txt names no operator"),
    ],
)
def test_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("# nothing yet\n\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    done = verify(sys.executable, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"musadoctor: {words}")


# ---- the table -------------------------------------------------------------------------------


def test_the_table_of_nothing() -> None:
    nothing: tuple[JSON, ...] = (
        None,
        {"absent": "no torch"},
        {"items": [{"name": "compute: matmul", "value": {}, "state": "done"}]},
    )
    assert [render(fact) for fact in nothing] == [""] * 3


def test_the_whole_table() -> None:
    rows = [
        {"operator": "aten::topk", "count": 12, "seconds": 0.02, "share": 0.4, "bytes": 4096},
        {"operator": "aten::a_name\x1b[31m", "count": 1, "seconds": 0.001, "share": 0.02},
    ]
    value_ = {"leaving": 5, "share": 0.42, "seconds": 0.05, "operators": rows}
    static = {
        "operators": 3110,
        "covered": 1000,
        "composite": 1500,
        "elsewhere": 300,
        "falls_back": ["topk"],
        "missing": [],
    }
    common = {
        "leaving": 0,
        "share": 0.0,
        "seconds": 0.1,
        "operators": [],
        "missing": {"unique": "NotImplementedError"},
        "failed": {"sort": "RuntimeError: no"},
    }
    phase = steps(
        step("fallback: static", **static),
        step("fallback: common operators", **common),
        step("fallback: model own", function="train:step", **value_),
        step("fallback: model convnet", "musa:0", "hung", "no end"),
    )
    assert render(encode(phase)) == WHOLE


WHOLE = """
musa:0: static: of 3110 operators 1000 have a kernel of the device, 1500 are made of others, 1 are computed on the CPU, 0 are missing, and 300 are for other devices

musa:0: common operators: 0 operators leave the device, 0.0% of 100.0 ms
  unique: not implemented: NotImplementedError
  sort: failed: RuntimeError: no

musa:0: train:step: 5 operators leave the device, 42.0% of 50.0 ms
  operator             calls   share         ms    KiB copied
  aten::topk              12   40.0%     20.000           4.0
  aten::a_name\ufffd[31m        1    2.0%      1.000           0.0
  and 3 more
"""
