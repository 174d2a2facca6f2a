"""Shared by the tools that write tables into pages."""


def filled(page: str, begin: str, end: str, text: str) -> str:
    """Replaces the text between two marks of a page."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
