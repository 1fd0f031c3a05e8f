"""``postmortem fleet``: one command on every node of a job, one report."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, interruptible, seconds, whole
from postmortem.cli.output import add_report_options, check_target, emit
from postmortem.cli.parser import Parser
from postmortem.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postmortem.fleet.engines import Engine

SUMMARY = "run hang, doctor, net or collect on every node of a job: one report"
EXAMPLES = """\
examples:
  postmortem fleet --job 815302 hang --job 815302
  postmortem fleet -w node[001-064] doctor
  postmortem fleet -w worker-0,worker-1 --engine kubectl net
  postmortem fleet -w node[001-064] -d cores/ collect /scratch/cores
  postmortem fleet --dask tcp://head:8786 -d cores/ collect /storage/cores

srun (under SLURM), clush (ClusterShell), ssh or kubectl exec starts it; each node writes a small
JSON, and equal answers are one. collect folds the cores of all nodes and fetches one slim core of
each crash. Nodes that do not answer in time, or answer rubbish, are named.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("-w --hosts HOSTS", "the nodes: node[001-064],login1")
    add("--job ID", "a job of SLURM, with all its nodes (default: SLURM_JOB_ID)")
    add(
        "--dask ADDRESS",
        "the workers of a Dask scheduler (tcp://HOST:8786): one of each host; collect shares "
        "the cores of a storage that all see out among them",
    )
    add(
        "--ray ADDRESS",
        "the nodes of a Ray cluster (HOST:6379; auto: the one that this node belongs to)",
    )
    add(
        "--engine",
        "what starts it there (default: srun under SLURM, else clush, else ssh)",
        choices=("srun", "clush", "ssh", "kubectl"),
    )
    add(
        "--engine-options WORDS",
        "for the engine, as one word: '-p 2222', '-n training -c worker'",
        default="",
    )
    add(
        "--remote PROGRAM",
        "what it is called there: '/opt/env/bin/postmortem' (default: postmortem)",
        default="postmortem",
    )
    add("--deadline S", "seconds that a node has (default: 60)", type=seconds, default=60.0)
    add("--at-once N", "nodes at a time (default: 64)", type=whole(1, 10_000), default=64)
    add("-d --directory DIR", "of collect: where slim cores are put")
    add_report_options(parser)
    parser.add_argument("what", choices=("hang", "doctor", "net", "collect"), metavar="COMMAND")
    add("words ...", "its own options and paths", nargs=argparse.REMAINDER)


def run(args: argparse.Namespace) -> int:
    """Ask all nodes, and write the report."""
    from postmortem.analyses.fleet import report_on
    from postmortem.fleet import commands

    if {"-h", "--help"} & {*args.words}:
        args.parser.print_help()
        return 0
    # Behind the command they are of the one report, too: the nodes' own is JSON.
    behind = Parser(args.parser.prog, add_help=False, allow_abbrev=False)
    add_report_options(behind)
    args, args.words = behind.parse_known_args(args.words, args)
    args.words += ["--no-redact"] if args.no_redact else []
    if refusal := check_target(args):
        args.parser.error(refusal)
    plain = args.remote == args.parser.get_default("remote")
    if args.what == "hang" and plain and not args.words:
        args.parser.error("hang which job? give PIDs or --job NAME behind it")
    try:
        engine = _engine(args)
        folder = _folder(args)
    except ValueError as error:
        raise Refusal(str(error)) from None
    with interruptible():
        seen, problems = commands.run(engine, args.what, args.words, folder)
    return emit(report_on(seen, problems), args)


def _engine(args: argparse.Namespace) -> Engine:
    from postmortem.facts.host_names import NoHosts, expand
    from postmortem.fleet.engines import Engine, find_engine

    own = "dask" if args.dask is not None else "ray" if args.ray is not None else None
    if own and (args.hosts or args.job or args.engine or (args.dask and args.ray)):
        raise ValueError(f"--{own} has its own nodes: no -w, no --job, no --engine")
    by_env = args.hosts is None and own is None
    job = args.job or (os.environ.get("SLURM_JOB_ID") if by_env else None)
    nodes: Sequence[str]
    if own == "dask":
        from postmortem.fleet.dask import one_for_each_host, workers_of

        nodes = one_for_each_host(workers_of(args.dask))
    elif own == "ray":
        from postmortem.fleet.ray import nodes_of

        nodes = nodes_of(args.ray)
    elif args.hosts is not None:
        nodes = expand(args.hosts)
    elif job is not None:
        nodes = expand(os.environ.get("SLURM_JOB_NODELIST") or _nodes_of(job))
    else:
        args.parser.error("which nodes? give -w HOSTS, --job ID, --dask or --ray ADDRESS")
    program = tuple(shlex.split(args.remote))
    if not program:
        raise NoHosts("--remote is empty")
    return Engine(
        name=own or find_engine(args.engine, job, os.environ),
        nodes=tuple(nodes),
        program=program,
        options=tuple(shlex.split(args.engine_options)),
        at_once=args.at_once,
        seconds=args.deadline,
        job=job,
        address=args.dask or args.ray,
    )


def _nodes_of(job: str) -> str:
    """Return the node list of a job of SLURM; raises NoHosts."""
    from postmortem.facts.host_names import NoHosts
    from postmortem.readers.answers import answer_of

    done = answer_of(["squeue", "--noheader", "--format=%N", "--jobs", job], seconds=30)
    if isinstance(done, str):
        raise NoHosts(f"SLURM's squeue, which --job needs, {done}; give -w HOSTS")
    nodes, errors = (text.decode(errors="replace").strip() for text in (done.stdout, done.stderr))
    if done.returncode or not nodes:
        raise NoHosts(f"job {job}: {(errors.splitlines() or ['it has no nodes now'])[-1]}")
    return nodes


def _folder(args: argparse.Namespace) -> Path | None:
    if args.what != "collect":
        return None
    if args.directory is None or not Path(args.directory).is_dir():
        raise ValueError("collect needs -d DIR, a folder that is there, for the slim cores")
    if not args.words:
        raise ValueError("collect needs the folder of the cores on the nodes")
    return Path(args.directory)
