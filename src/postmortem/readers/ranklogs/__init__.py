"""Logs of jobs with many ranks to facts."""
