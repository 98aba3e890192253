"""The picture of a run: what a person saw, as an SVG that loads nothing from anywhere."""

import io
from pathlib import Path

from rich import console, table, terminal_theme, text

THEME = terminal_theme.TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [(72, 79, 88), (255, 123, 114), (126, 231, 135), (242, 204, 96), (121, 192, 255), (210, 168, 255), (165, 214, 255)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (88, 166, 255), (188, 140, 255), (57, 197, 207)],
)
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
<rect fill="#0d1117" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


class Picture:
    """Collects what the demo shows."""

    def __init__(self) -> None:
        self._console = console.Console(record=True, file=io.StringIO(), width=132, force_terminal=True)

    def command(self, line: str, output: str = "") -> None:
        """A prompt with a command, and what it printed."""
        self._console.print(text.Text(f"$ {line}", style="bold green"))
        if output:
            self._console.print(text.Text(output.rstrip()))
        self._console.print()

    def show(self, what: table.Table) -> None:
        self._console.print(what)

    def say(self, line: str, style: str = "") -> None:
        self._console.print(text.Text(line, style=style))

    def write(self, path: Path) -> None:
        """Leaves the SVG."""
        svg = self._console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id="demo")
        path.write_text(svg.rstrip() + "\n")
