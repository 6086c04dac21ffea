#!/bin/sh
# A Slurm Prolog: has the node examined before a job, and drains it with the cause as reason when it
# is broken. README.md tells how it is set up.
#
# /etc/default/musadoctor may set:
# MUSADOCTOR            the command, with arguments if any; default musadoctor
# MUSADOCTOR_SECONDS    the longest that the report may take; default 30
# MUSADOCTOR_ARGUMENTS  more for the report: --ignore iommu-on
# MUSADOCTOR_STRICT     1: drain the node too when it could not be cleared; default 0
#
# Slurm gives a prolog no PATH.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# shellcheck disable=SC1091
[ ! -r /etc/default/musadoctor ] || . /etc/default/musadoctor
seconds=${MUSADOCTOR_SECONDS:-30}

# musadoctor keeps its own limit; timeout is for the day on which it does not.
# shellcheck disable=SC2086
said=$(timeout -k 2 $((seconds + 5)) ${MUSADOCTOR:-musadoctor} \
  --format line --timeout "$seconds" ${MUSADOCTOR_ARGUMENTS:-} </dev/null 2>/dev/null)
code=$?
case $code in
  0) exit 0 ;;
  1) ;;
  *) [ "${MUSADOCTOR_STRICT:-0}" = 1 ] || exit 0 ;;
esac

node=${SLURMD_NODENAME:-$(uname -n)}
said=${said:-ended with $code and said nothing}
# A reason that an administrator wrote stays.
case $(sinfo --noheader --nodes="$node" --format=%T) in
  *drain* | *down*) ;;
  *) scontrol update NodeName="$node" State=DRAIN Reason="musadoctor: ${said#broken: }" ;;
esac
exit 1
