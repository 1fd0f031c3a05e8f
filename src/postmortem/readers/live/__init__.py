"""Live processes: who belongs to a job, where its threads stand, what the kernel says of them."""
