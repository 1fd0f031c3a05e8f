"""A process stood still for as long as it was watched.

What it means
    There are no other ranks to compare with. Its main thread did not run between the samples;
    what it waits for, and who holds that or has the other end, is all that can be told.

How to be sure
    A server that waits for its next request looks the same. Watch it for longer (--gap 60).

What to do
    Ask whether it should wait there at all, and follow what it waits for.
"""

from postmortem.diagnose.hang.live_waits import hot_words, place_words, wait_words, waits_words
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import ANY_REASON, Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob


@rule("https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html", yields_to=ANY_REASON)
def process_waits(job: LiveJob) -> Findings:
    ranks = job.ranks()
    if len(ranks) != 1:
        return
    one, motion = ranks[0], job.motion(ranks[0].label)
    thread = one.main_thread
    if thread is None or motion is None or motion.goes_on or not thread.frames:
        return
    place = place_words(thread)
    doing = "computes" if motion.is_busy else waits_words(one, thread)
    hot = job.hot_path(one.pid)
    shortly = wait_words(one, thread)
    seconds = f"{job.watched_seconds:g} s"
    yield Finding(
        title=clip(f"{one.label} stood still: it {shortly}", 100)
        if not motion.is_busy
        else clip(f"{one.label} computed in one place for {seconds}: {place}", 100),
        cause=f"its main thread, at {place}, {doing}; in {seconds} "
        + ("it never left that place" if motion.is_busy else "it did not run at all")
        + (f"; {hot_words(hot)}" if hot is not None else ""),
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"watch it for longer: postmortem hang {one.pid} --gap 60",
            f"read the code at {place_words(thread, most=1)}: should it wait there?",
        ),
        evidence=(Evidence(f"pid {one.pid}, thread {thread.tid}", f"{place}: {shortly}"),),
    )
