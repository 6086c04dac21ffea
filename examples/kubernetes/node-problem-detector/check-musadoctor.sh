#!/bin/sh
# For node-problem-detector: 0 the node is well, 1 it is not, 2 that is not known. What is printed
# becomes the condition's message, of which 80 bytes are kept.
#
# MUSADOCTOR  the command, default musadoctor
# SECONDS_MAX the longest that it may take, default 60
musadoctor=${MUSADOCTOR:-musadoctor} seconds=${SECONDS_MAX:-60}

command -v "${musadoctor%% *}" >/dev/null 2>&1 || { echo "no ${musadoctor%% *} on PATH"; exit 2; }
# musadoctor keeps its own limit; timeout is for the day on which it does not.
# shellcheck disable=SC2086 - the command may have arguments
said=$(timeout -k 5 $((seconds + 10)) $musadoctor --format line --timeout "$seconds" 2>/dev/null)
code=$?
LC_ALL=C # bytes, not characters
printf '%.80s\n' "${said:-musadoctor ended with $code and said nothing}"
case $code in
  0) exit 0 ;;
  1) exit 1 ;;
  *) exit 2 ;;
esac
