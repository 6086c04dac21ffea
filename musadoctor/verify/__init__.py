"""Active checks: compute on every visible device, and see whether it is right.

``children`` holds what runs in the examined interpreter, ``taken`` runs it and picks up what is
left where a step hangs or crashes, ``phases`` makes facts of it.
"""
