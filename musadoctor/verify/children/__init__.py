"""What runs in the examined interpreter: the standard library and torch, nothing of musadoctor.

``base`` is the program; the other modules register steps with it. They are handed to the child as
text, and they are imported here only to know which steps there are.
"""

from musadoctor.verify.children import (
    attention,
    census,
    collectives,
    compute,
    elementwise,
    extension,
    fallback,
    measure,
    memory,
    numerics,
    record,
    throughput,
)

__all__ = [
    "attention",
    "census",
    "collectives",
    "compute",
    "elementwise",
    "extension",
    "fallback",
    "measure",
    "memory",
    "numerics",
    "record",
    "throughput",
]
