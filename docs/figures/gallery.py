"""Screenshots of the maps of several reports, a mistake under the pointer.

    sincere report runs/letter                        # → runs/letter/report.html
    python docs/figures/gallery.py letter=runs/letter/report.html fsdd=runs/fsdd/report.html

Writes docs/figures/gallery_NAME.png. Needs playwright and a Chromium on PATH.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from report import ARGUMENTS, opened, point_at_a_mistake

HERE = Path(__file__).parent


def main(pages: dict[str, Path]) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for name, path in pages.items():
            page = opened(browser, path, width=1160, height=1000)
            page.locator("#r0-map").evaluate("e => window.scrollTo(0, e.getBoundingClientRect().top + scrollY - 110)")
            page.wait_for_timeout(300)
            point_at_a_mistake(page)
            content = page.screenshot(clip={"x": 0, "y": 100, "width": 1160, "height": 800})
            Image.open(io.BytesIO(content)).convert("RGB").save(HERE / f"gallery_{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main({name: Path(path) for name, _, path in (word.partition("=") for word in sys.argv[1:])})
