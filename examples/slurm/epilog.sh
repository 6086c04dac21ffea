#!/bin/sh
# A Slurm Epilog: what prolog.sh beside it does, after a job. A node that is well again is not resumed:
# that is for whoever drained it.
#
# Its exit code is always 0: with another one Slurm would drain the node too, with "Epilog error".
"${0%/*}/prolog.sh"
exit 0
