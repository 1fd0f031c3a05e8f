#!/bin/sh
# slurm.conf: Epilog=/etc/slurm/postmortem/epilog.sh
# Removes the job's folder on the node; what a `run` that was killed left in it is kept first, where
# POSTMORTEM_KEEP names a folder of root that all nodes see. An Epilog that fails drains its node.
folder=${POSTMORTEM_NODE_FOLDER:-/var/spool/postmortem}/$SLURM_JOB_ID
case $SLURM_JOB_ID in '' | *[!0-9]*) exit 0 ;; esac
if [ -n "$POSTMORTEM_KEEP" ] && [ -n "$(ls -A "$folder" 2>/dev/null)" ]; then
    kept=$POSTMORTEM_KEEP/$SLURM_JOB_ID
    mkdir -p "$kept" && timeout 60 tar -C "$folder" -czf "$kept/${SLURMD_NODENAME:-node}.tar.gz" . &&
        chown -R "$SLURM_JOB_UID" "$kept"
fi 2>/dev/null
rm -rf "$folder"
exit 0
