"""Plain: text from outside made harmless for a terminal and for XML."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """Returns `text` on one line without control characters.

    Reasons come from the output of workers: an escape sequence would move a
    terminal's cursor, and XML has no way to write most of these characters.
    """
    return "".join(
        " " if each.isspace() else each if each.isprintable() else REPLACEMENT
        for each in text
    )
