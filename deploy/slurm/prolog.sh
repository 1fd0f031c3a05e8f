#!/bin/sh
# slurm.conf: Prolog=/etc/slurm/postmortem/prolog.sh
# Makes a folder of the job's own on each node, for cores and for what must not cross the network.
# A Prolog that fails drains its node, and one that asks the controller holds up every job: this one
# does neither. The folder above is of root alone: no user can put a link in the way.
folder=${POSTMORTEM_NODE_FOLDER:-/var/spool/postmortem}/$SLURM_JOB_ID
mkdir -p -m 0755 "$(dirname "$folder")" 2>/dev/null
mkdir -m 0700 "$folder" 2>/dev/null && chown -h "$SLURM_JOB_UID" "$folder" 2>/dev/null
exit 0
