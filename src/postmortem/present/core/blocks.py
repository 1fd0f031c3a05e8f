"""The report of a core, block by block: what happened, where, who else was there, who it was."""

from postmortem.present.async_tasks import greenlet_block, task_block
from postmortem.present.core import facts as core_facts
from postmortem.present.core.lock_blocks import lock_block
from postmortem.present.core.stacks import register_block, stack_blocks
from postmortem.present.core.view import CoreView
from postmortem.report.blocks import Block


def core_blocks(
    view: CoreView, *, verbose: bool = False, all_threads: bool = False, with_locals: bool = False
) -> tuple[Block, ...]:
    """Return the blocks of a core's report, in the order in which they are read.

    `verbose` shows full names, all frames, registers and modules; `all_threads` the stack of
    every group of threads; `with_locals` arguments and locals under each frame.
    """
    blocks: list[Block | None] = [core_facts.what_happened(view, verbose=verbose)]
    blocks += stack_blocks(view, verbose=verbose, all_threads=all_threads, with_locals=with_locals)
    blocks.append(lock_block(view, verbose=verbose))
    blocks.append(task_block(view.threads, verbose=verbose))
    blocks.append(greenlet_block(view.threads, verbose=verbose))
    blocks.append(core_facts.identity(view, verbose=verbose))
    blocks.append(core_facts.trouble(view))
    if view.binary is not None:
        blocks.append(core_facts.binary(view.binary, verbose=verbose))
    blocks.append(core_facts.environment(view, verbose=verbose))
    if verbose:
        thread = view.shown_thread
        blocks.append(register_block(thread) if thread is not None else None)
        blocks.append(core_facts.memory_table(view))
        blocks.append(core_facts.module_table(view))
    return tuple(block for block in blocks if block is not None)
