"""The guard: judge what is about to be installed, and stand in the way of what breaks the host."""
