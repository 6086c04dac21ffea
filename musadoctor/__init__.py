"""Can this host run PyTorch on its Moore Threads GPUs, and what is the first thing to fix?"""

__version__ = "0.1.0"
