"""The structure of an HTML page, as a browser would see it: elements, attributes and texts."""

from html.parser import HTMLParser

__all__ = ["VOID", "Element", "Shape", "shape_of"]

VOID = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})


class Element:
    """An element with its attributes and the text directly in it."""

    def __init__(self, tag: str, attributes: dict[str, str], parent: "Element | None") -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.text = ""

    def all_text(self, shape: "Shape") -> str:
        """Return the text in it and below it."""
        return self.text + "".join(each.all_text(shape) for each in shape.elements if each.parent is self)


class Shape(HTMLParser):
    """The elements of a page in their order. ``problems`` are tags that do not match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.problems: list[str] = []
        self._open: list[Element] = []

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        """Names of elements and of their attributes: what no text may change."""
        return [(each.tag, tuple(sorted(each.attributes))) for each in self.elements]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in a start tag."""
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> has an attribute twice")
        made = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1] if self._open else None)
        self.elements.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        """Take in an end tag."""
        if not self._open or self._open[-1].tag != tag:
            self.problems.append(f"</{tag}> closes {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_comment(self, data: str) -> None:
        """Note a comment: no page has one."""
        self.problems.append(f"comment {data!r}")

    def handle_data(self, data: str) -> None:
        """Take in text."""
        if self._open:
            self._open[-1].text += data

    def close(self) -> None:
        """End the page."""
        super().close()
        self.problems += [f"<{each.tag}> is not closed" for each in self._open]


def shape_of(html: str) -> Shape:
    """Return the structure of a page."""
    shape = Shape()
    shape.feed(html)
    shape.close()
    return shape
