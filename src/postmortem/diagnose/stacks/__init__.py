"""What stacks have in common: identity of frames, activity, groups, classes, signature."""
