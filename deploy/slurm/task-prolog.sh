#!/bin/sh
# slurm.conf: TaskProlog=/etc/slurm/postmortem/task-prolog.sh
# What it prints as "export NAME=value" is set for the task: `postmortem run` and PyTorch put their
# temporary files on the node.
folder=${POSTMORTEM_NODE_FOLDER:-/var/spool/postmortem}/$SLURM_JOB_ID
[ -d "$folder" ] && echo "export TMPDIR=$folder"
exit 0
