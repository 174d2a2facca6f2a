"""What the tools that write tables into pages share."""


def filled(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between its two marks."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
