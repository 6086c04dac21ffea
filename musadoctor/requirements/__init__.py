"""Read dependency files of every form that people pin in, as entries. Nothing in them is run.

Every reader is a module with ``read(path, text) -> Iterator[Entry]``; ``files`` chooses among them.
"""
