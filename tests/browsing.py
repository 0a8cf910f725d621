"""A report in a real browser: Chromium, headless, without a network."""

import shutil

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card, for the sphere
]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
POINT = """([run, sample]) => {
    const plot = document.querySelectorAll(".plot")[run];
    const trace = plot.data.find((one) => one.customdata && one.customdata.includes(sample));
    const place = trace.customdata.indexOf(sample), layout = plot._fullLayout, box = plot.getBoundingClientRect();
    return [box.left + layout.xaxis._offset + layout.xaxis.d2p(trace.x[place]),
            box.top + layout.yaxis._offset + layout.yaxis.d2p(trace.y[place])];
}"""


class Watched:
    """A page and everything about it that must not happen."""

    def __init__(self, browser, path, *, before="", **options):
        self.context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **options})
        self.page, self.wrong = self.context.new_page(), []
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("dialog", lambda dialog: (self.wrong.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self._asked(request.url, path.as_uri()))
        if before:
            self.page.add_init_script(before)
        self.page.goto(path.as_uri())

    def _asked(self, url, own):
        if url.partition("#")[0] != own and not url.startswith(("data:", "blob:")):
            self.wrong.append(f"request: {url}")

    def __enter__(self):
        return self.page

    def __exit__(self, *error):
        self.page.emulate_media(media="screen", color_scheme="light")
        if error[0] is None:
            assert self.wrong == []


def show_run(page, run):
    page.locator(".tabs [role=tab]").nth(run).click()


def see(page, run=0):
    """Wait for a map to be drawn, and bring it into view."""
    page.locator(".plot").nth(run).scroll_into_view_if_needed()
    page.wait_for_function("run => document.querySelectorAll('.plot')[run]._fullLayout !== undefined", arg=run)
    page.wait_for_timeout(150)


def point_at(page, sample, run=0):
    page.mouse.move(5, 5)
    page.mouse.move(*page.evaluate(POINT, [run, sample]), steps=3)
    page.locator("#tip").wait_for(state="visible")


def sideways(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
