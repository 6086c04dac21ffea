"""The shell script that does an errand on a host, the same for every engine.

It needs a POSIX shell, ``gzip`` and ``base64``. What it prints are lines that begin with a mark of
this run (see ``frames``), so that banners, labels of an engine and the output of other hosts in
between do no harm. With ``--bring`` nothing is written on the host: the interpreter takes
musadoctor from its memory.
"""

import shlex
from typing import Literal

from musadoctor.fleet.carry.errand import Errand

MARK = "musadoctor-fleet"
STARTER = (
    "import os,sys;f=os.memfd_create('musadoctor',0);o=open(f,'wb',closefd=False);"
    "o.write(sys.stdin.buffer.read());o.close();"
    "os.execv(sys.executable,[sys.executable,'-I','-B','/proc/self/fd/%d'%f]+sys.argv[1:])"
)
"""Starts musadoctor from the zip file on standard input, without a file."""
NEWEST = 14
"""``python3.14``: the newest interpreter that is looked for by its own name."""

_HEAD = """\
mark="{mark} {nonce} $name"
fail() {{ echo "$mark failed $*"; exit 0; }}
for tool in gzip base64; do
  command -v $tool >/dev/null 2>&1 || fail no-tool there is no $tool
done
"""
_FIND_PYTHON = """\
python= old=
for one in python3 {names}; do
  command -v $one >/dev/null 2>&1 || continue
  if $one -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
  then python=$one; break
  else old="$old $($one --version 2>&1 | head -n 1)"
  fi
done
[ -n "$python" ] || fail no-python ${{old:-none on PATH}}
"""
_WATCHED = """\
( work 2>&1 & child=$!
  ( while IFS= read -r _ <&3; do :; done; kill $child ) >/dev/null 2>&1 & watch=$!
  wait $child; echo "exit code $?"; kill $watch 2>/dev/null
) | send
"""
_UNWATCHED = """\
( work 2>&1; echo "exit code $?" ) | send
"""
_SEND = """\
send() { gzip -1 | base64 | sed "s/^/$mark data /"; echo "$mark end"; }
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
    arguments = shlex.join(errand.arguments)
    lines = ["exec 3<&0 </dev/null\n" if watched or payload == "stdin" else "", f"name={name}\n"]
    lines.append(_HEAD.format(mark=MARK, nonce=nonce))
    lines += _variables(errand)
    if payload == "installed":
        command = shlex.quote(errand.command[0])
        lines.append(
            f"command -v {command} >/dev/null 2>&1 || fail no-musadoctor no {command} on PATH\n"
        )
        lines.append(f"work() {{ {shlex.join(errand.command)} {arguments} </dev/null; }}\n")
    else:
        names = " ".join(f"python3.{minor}" for minor in range(NEWEST, 9, -1))
        lines.append(_FIND_PYTHON.format(names=names))
        if payload == "stdin":
            assert errand.zipapp is not None
            lines.append(f"zip=$(head -c {len(errand.zipapp)} <&3 | base64)\n")
            start = f'printf %s "$zip" | base64 -d | $python -I -c {shlex.quote(STARTER)}'
        else:
            start = '$python -I -B "$0"'
        lines.append(f"work() {{ {start} {arguments}; }}\n")
    lines += [_SEND, _WATCHED if watched else _UNWATCHED]
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
