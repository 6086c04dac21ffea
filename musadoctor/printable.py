"""Text of other people's making, as a terminal may have it."""


def printable(text: str) -> str:
    """``text`` with a mark for each character that a terminal would obey."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    # Not printable by Python's reckoning are also the blanks of Chinese and of web pages.
    return "".join(c if c.isprintable() or c in "\n\t\u3000\xa0" else "\ufffd" for c in text)
