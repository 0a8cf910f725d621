"""Screenshots of the demo's report.

    sincere demo --out sincere-demo
    python docs/figures/report.py sincere-demo/report.html        # writes docs/figures/report_*.png, ten seconds

Needs playwright and a Chromium on PATH.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"]


def opened(browser: Browser, path: Path, *, width: int, height: int, scheme: str = "light") -> Page:
    """The page, its first map drawn."""
    phone = width < 500
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=2 if phone else 1,
        is_mobile=phone,
        has_touch=phone,
    )
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    page.locator(".plot").first.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('.plot')._fullLayout !== undefined")
    page.wait_for_timeout(500)
    return page


def point_at_a_mistake(page: Page) -> None:
    """Where the first ring is."""
    place = page.evaluate(
        """() => {
        const plot = document.querySelector(".plot"), layout = plot._fullLayout, box = plot.getBoundingClientRect();
        const ring = plot.data.find((trace) => trace.name === "classified wrong");
        return [box.left + layout.xaxis._offset + layout.xaxis.d2p(ring.x[0]),
                box.top + layout.yaxis._offset + layout.yaxis.d2p(ring.y[0])];
        }"""
    )
    for shift in (4, 0):  # the plot looks at the pointer every twentieth of a second only
        page.mouse.move(place[0] + shift, place[1])
        page.wait_for_timeout(200)
    page.locator("#tip").wait_for(state="visible")


def kept(content: bytes, name: str) -> None:
    """Write a screenshot, packed as tightly as PNG allows."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image.save(HERE / f"report_{name}.png", optimize=True)


def main(path: Path) -> None:
    """Every screenshot."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = opened(browser, path, width=1160, height=1000)
        page.evaluate("window.scrollTo(0, 0)")
        page.wait_for_timeout(300)
        kept(page.screenshot(), "comparison")
        page.locator("#r0-map").evaluate("e => window.scrollTo(0, e.getBoundingClientRect().top + scrollY - 110)")
        page.wait_for_timeout(300)
        point_at_a_mistake(page)
        kept(page.screenshot(clip={"x": 0, "y": 100, "width": 1160, "height": 800}), "map")
        page.mouse.move(2, 2)
        kept(page.locator("#panel0 .grid").screenshot(), "pictures")
        kept(page.locator("#panel0 .mistakes").screenshot(), "mistakes")
        dark = opened(browser, path, width=1160, height=900, scheme="dark")
        dark.locator("#r0-class_pairs").evaluate(
            "e => window.scrollTo(0, e.getBoundingClientRect().top + scrollY - 120)"
        )
        dark.wait_for_timeout(300)
        kept(dark.screenshot(), "dark")
        phone = opened(browser, path, width=390, height=844)
        kept(phone.screenshot(), "phone")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
