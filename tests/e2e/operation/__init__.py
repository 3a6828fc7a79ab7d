"""What the owner of a worker meets: starts, refusals, logs, disks, clocks; real processes."""
