"""Writes handbook.pdf, the document of documents_server.py: four pages of text, with a table. `make handbook` runs it.

The same fpdf2 writes the same bytes, because the file has neither the time nor the machine in it.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import TableBordersLayout
from fpdf.fonts import FontFace

FILE = Path(__file__).with_name("handbook.pdf")

TITLE = "Handbook of the ice cream parlours"

WRITTEN = datetime(2026, 5, 1, 9, tzinfo=UTC)

TABLE = (
    ("flavour", "euros a scoop", "contains", "keeps"),
    ("vanilla", "3.00", "milk, egg", "8 weeks"),
    ("chocolate", "3.20", "milk, soy", "8 weeks"),
    ("lemon", "2.80", "none of these", "12 weeks"),
    ("pistachio", "3.90", "milk, nuts", "5 weeks"),
    ("liquorice", "3.50", "wheat", "10 weeks"),
)
"""The flavours of parlour_server.py, with the same prices."""

PAGES: tuple[tuple[str, tuple[str | tuple[tuple[str, ...], ...], ...]], ...] = (
    (
        "Opening and closing",
        (
            "The parlours open at 11:00 and close at 20:00. From June to August they close at 22:00. They are closed "
            "in January, when the machines are repaired.",
            "Two people open the shop. The first one switches on the lights and the display freezer. The second one "
            "counts the money in the till: it holds 150 euros in coins in the morning. A difference of more than "
            "5 euros is written into the cash book.",
            "In the evening the last customer is served before the chairs are put on the tables. The keys stay with "
            "the shift leader. If a key is lost, the shift leader calls the locksmith on the same day and tells the "
            "head office.",
            "An employee gets a break of 30 minutes after four hours of work. Two scoops a day are free for everybody "
            "who works.",
        ),
    ),
    (
        "Flavours",
        (
            "Five flavours are always on sale. The table has the price of a scoop, the allergens, and how long an "
            "unopened tub keeps in the store.",
            TABLE,
            "A child under six pays half the price. A cone costs nothing, a waffle cup costs 0.50 euros more.",
            "If a customer asks about an allergy, show this page. Use a clean scoop from the locked drawer, never the "
            "one in the water. Lemon is the only flavour that people with an allergy to milk, nuts and wheat can eat.",
        ),
    ),
    (
        "The ice cream machine",
        (
            "The machine freezes a mix of ten litres in 25 minutes. Ice cream is served at -12 degrees and stored at "
            "-20 degrees. If the store becomes warmer than -15 degrees for more than an hour, throw away what is in "
            "it.",
            "Clean the machine each evening. Switch it off, take out the blade, and rinse the drum twice with warm "
            "water. Then fill it with disinfectant, wait ten minutes, and rinse it again. Sign the list on the door.",
            "The red lamp means that the motor is too hot: wait 20 minutes and clean the filter at the back. The "
            "yellow lamp means that the water pressure is low. If both lamps blink, pull the plug and call the "
            "mechanic, Ms Okafor, on extension 417.",
            "The blade is sharpened every three months. The seals are replaced once a year, in January.",
        ),
    ),
    (
        "Weather and the van",
        (
            "Warm days sell ice cream. If the forecast is above 28 degrees, order twice as much and let one more "
            "person work in the afternoon. If it is below 10 degrees, one person is enough.",
            "On a rainy day the parlour sells two fifths less. Put the tables under the roof, and sell waffles and "
            "hot chocolate instead. In a thunderstorm the awning is rolled in and nobody sits outside.",
            "The van drives to the lake on Saturdays and Sundays from May to September. Its jingle may be played "
            "between 10:00 and 19:00, for at most eight seconds, and never in front of a school or a hospital.",
            "The driver refuels on Friday evening. The generator of the van uses three litres of petrol an hour. "
            "The parking permit for the lake is renewed in April.",
        ),
    ),
)
"""A heading for each page, and what stands below it: paragraphs, and tables whose first row is the header."""


def handbook() -> bytes:
    """Return the handbook as PDF."""
    pdf = FPDF(format=(148, 210))  # millimetres: A5
    pdf.set_title(TITLE)
    pdf.set_producer("fpdf2")  # without its version
    pdf.set_creation_date(WRITTEN)
    pdf.set_auto_page_break(True, margin=12)
    for number, (heading, blocks) in enumerate(PAGES, start=1):
        write_page(pdf, number, heading, blocks)
    return bytes(pdf.output())


def write_page(pdf: FPDF, number: int, heading: str, blocks: tuple[str | tuple[tuple[str, ...], ...], ...]) -> None:
    """Add a page: a line with the title and the number, a heading, and the blocks."""
    pdf.add_page()
    pdf.set_font("Helvetica", size=8)
    pdf.cell(0, 5, TITLE)
    pdf.set_x(pdf.l_margin)
    pdf.cell(0, 5, f"page {number}", align="R", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Helvetica", "B", 17)
    pdf.cell(0, 16, heading, new_x="LMARGIN", new_y="NEXT")
    for block in blocks:
        pdf.set_font("Helvetica", size=10.5)
        if isinstance(block, str):
            pdf.multi_cell(0, 5.5, block, align="L", new_x="LMARGIN", new_y="NEXT")
        else:
            layout = {
                "borders_layout": TableBordersLayout.HORIZONTAL_LINES,
                "line_height": 6.5,
                "col_widths": (3, 4, 5, 3),
            }
            with pdf.table(headings_style=FontFace(emphasis="BOLD"), text_align="LEFT", **layout) as table:
                for cells in block:
                    table.row(cells)
        pdf.ln(3)


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_bytes(handbook())
