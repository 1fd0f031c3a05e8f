"""Stops in the debugger where the loss is too large."""

from postmortem import breakpoint_on_rank

losses = [0.7, 0.4, 4.25]
while losses:
    loss = losses.pop(0)
    breakpoint_on_rank(0, when=lambda: loss > 1)
print("went on")
