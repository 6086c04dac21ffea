"""The shell script that does an errand on a host, the same for every engine.

It needs a POSIX shell and what every Linux has: ``gzip``, ``base64``, ``sed``, ``tr``, ``head``.
What it prints are lines that begin with a mark of this run (see ``frames``), so that banners,
labels of an engine and the output of other hosts in between do no harm. With ``--bring`` nothing
is written to a disk of the host: the interpreter takes musadoctor from memory.
"""

import shlex
from typing import Literal

from musadoctor.fleet.answer import LONGEST_REPORT
from musadoctor.fleet.carry.errand import Errand

MARK = "musadoctor-fleet"
STARTER = (
    "import os,sys;"
    # Not every Python has it: some are built for the oldest C library there is.
    "f=os.memfd_create('musadoctor',0) if hasattr(os,'memfd_create')"
    " else os.dup2(os.open('/dev/shm',os.O_TMPFILE|os.O_RDWR),9);"
    "o=open(f,'wb',closefd=False);o.write(sys.stdin.buffer.read());o.close();"
    "os.dup2(os.open(os.devnull,os.O_RDONLY),0);"
    "os.execv(sys.executable,[sys.executable,'-I','-B','/proc/self/fd/%d'%f]+sys.argv[1:])"
)
"""Starts musadoctor from the zip file on standard input, without a file."""
NEWEST = 14
"""``python3.14``: the newest interpreter that is looked for by its own name."""

# What is exported is handed on, and the whole of musadoctor would be too long for that; gzip takes
# options from a variable, and bash its settings.
_HEAD = """\
unset GZIP zip name mark tool self python old one probe child watch
set +eux
self=$0
name={name}
name=$(echo "$name" | LC_ALL=C tr -cd 'A-Za-z0-9._:-' | head -c 255)
mark="{mark} {nonce} ${{name:-unnamed}}"
fail() {{ echo "$mark failed $*" >&4; exit 0; }}
for tool in gzip base64 sed tr head; do
  command -v $tool >/dev/null 2>&1 || fail no-tool there is no $tool
done
"""
# Ended while it tries an interpreter, it ends that too.
_FIND_PYTHON = """\
find_python() {{
  trap 'kill $probe 2>/dev/null; exit 1' TERM
  for one in python3 {names}; do
    command -v $one >/dev/null 2>&1 || continue
    $one -I -c 'import sys; sys.exit(sys.version_info < (3, 10))' </dev/null >/dev/null 2>&1 &
    probe=$!
    if wait $probe; then python=$one; trap - TERM; return; fi
    old="$old $($one --version 2>&1 </dev/null | head -n 1)"
  done
  fail no-python ${{old:-none on PATH}}
}}
"""
# More is no report, and would only fill the memory of those who take it.
_SEND = """\
send() {{ head -c {most} | gzip -1 | base64 | sed "s/^/$mark data /"; echo "$mark end"; }}
"""
# By -9, for a shell that catches signals itself may miss one just before it reads.
_WATCHED = """\
{{ {feed}work & child=$!
  {{ while IFS= read -r _; do :; done <&3; kill $child; }} >/dev/null 2>&1 4>&- & watch=$!
  wait $child; echo "exit code $?"; kill -9 $watch 2>/dev/null
}} | send
"""
_UNWATCHED = """\
{{ {feed}( work ); echo "exit code $?"; }} | send
"""


def script(
    errand: Errand,
    nonce: str,
    *,
    name: str = "${SLURMD_NODENAME:-$(uname -n)}",
    payload: Literal["installed", "stdin", "file"],
    watched: bool,
) -> str:
    """The text for ``sh``; ``nonce`` is this run's own.

    ``name`` is a shell word: by what the host calls itself in its answer. ``payload`` says where
    musadoctor is: installed there; in ``errand.zipapp``, which follows the script on standard
    input; or in the file that holds the script itself (:func:`self_contained`). Where ``watched``,
    the end of standard input ends what runs: so a lost connection leaves nothing behind.
    """
    given = "3<&0 " if watched or payload == "stdin" else ""
    lines = [f"exec {given}4>&1 </dev/null\n", _HEAD.format(mark=MARK, nonce=nonce, name=name)]
    lines += _variables(errand)
    feed = ""
    if payload == "installed":
        command = shlex.quote(errand.command[0])
        lines.append(
            f"command -v {command} >/dev/null 2>&1 || fail no-musadoctor no {command} on PATH\n"
        )
        start = shlex.join(errand.command)
    else:
        names = " ".join(f"python3.{minor}" for minor in range(NEWEST, 9, -1))
        lines.append(_FIND_PYTHON.format(names=names))
        start = '$python -I -B "$self"'
        if payload == "stdin":
            assert errand.zipapp is not None
            lines.append(f"zip=$(head -c {len(errand.zipapp)} <&3 | base64)\n")
            feed = 'echo "$zip" | base64 -d | '
            start = f"$python -I -c {shlex.quote(STARTER)}"
    find = "" if payload == "installed" else "find_python; "
    # In the place of its shell, so that what ends the shell ends musadoctor.
    lines.append(
        f"work() {{ {find}exec {start} {shlex.join(errand.arguments)} 2>&1 3<&- 4>&-; }}\n"
    )
    lines += [
        _SEND.format(most=LONGEST_REPORT + 1),
        (_WATCHED if watched else _UNWATCHED).format(feed=feed),
    ]
    return "".join(lines)


def _variables(errand: Errand) -> list[str]:
    if not errand.variables:
        return []
    lines = ['case "$name" in\n']
    for host, variables in errand.variables.items():
        exports = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
        lines.append(f"  {shlex.quote(host)}) export {exports};;\n")
    lines.append("esac\n")
    return lines


def from_stdin(text: str) -> str:
    """A command of one line, good for every login shell, that runs a script read from its input.

    Not ``sh -s``: some shells read ahead, and what follows the script would be lost.
    """
    return f"sh -c 'eval \"$(dd bs=1 count={len(text.encode())} 2>/dev/null)\"'"


def self_contained(text: str, zipapp: bytes) -> bytes:
    """A file that is both the script and the zip file that it runs."""
    return f"#!/bin/sh\n{text}exit 0\n".encode() + zipapp
