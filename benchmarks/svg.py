"""Just enough SVG: text and rectangles on a white card that reads on light and dark pages."""

from html import escape

FONT = "font-family='system-ui, sans-serif'"


class Drawing:
    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", fill: str = "#222") -> None:
        place = f"x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{fill}'"
        self._parts.append(f"<text {place}>{escape(text)}</text>")

    def rectangle(self, x: float, y: float, width: float, height: float, fill: str, title: str = "") -> None:
        shape = f"x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{height:.1f}' fill='{fill}'"
        self._parts.append(f"<rect {shape}><title>{escape(title)}</title></rect>" if title else f"<rect {shape}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "#ddd", width: float = 1) -> None:
        ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
        self._parts.append(f"<line {ends} stroke='{stroke}' stroke-width='{width}'/>")

    def __str__(self) -> str:
        size = f"width='{self.width}' height='{self.height}' viewBox='0 0 {self.width} {self.height}'"
        card = "<rect width='100%' height='100%' rx='6' fill='#fff'/>"
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>\n{card}\n" + "\n".join(self._parts) + "\n</svg>\n"
        )
