"""Jobs that hung, by what was taken from them while they did."""
