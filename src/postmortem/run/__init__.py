"""``postmortem run``: a command under watch, so that its failure leaves evidence."""
