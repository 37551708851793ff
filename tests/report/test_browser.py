"""The report in a real browser: it works, it is accessible, and it talks to nobody."""

import os
import shutil
from pathlib import Path

import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.promises import Values

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip("no Chromium here; install it (Debian: apt-get install chromium)", allow_module_level=True)

KINDS = ("scores", "votes", "values", "anytime", "path")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    X, y = make_classification(4000, n_informative=6, flip_y=0.1, random_state=1)
    model = RandomForestClassifier(31, max_depth=6, random_state=0).fit(X[:1000], y[:1000])
    predictors = {
        "scores": scurry.early_exit(model, X[1000:3000], max_disagreement=0.03, method="qwyc", random_state=0),
        "votes": scurry.early_exit(model, X[1000:3000], max_disagreement=0.03, method="minimixed", random_state=0),
        "values": scurry.early_exit(model, X[1000:3000], promise=Values(0.1, of="probability"), random_state=0),
        "anytime": scurry.anytime(model, X[1000:3000], y[1000:3000], order="backward-squirrel"),
        "path": scurry.prune(model, X[1000:3000]),
    }
    for kind, predictor in predictors.items():
        scurry.report.write(predictor, folder / f"{kind}.html", X[3000:], y[3000:], model=model)
    return folder


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, folder):
    """A function that opens a page and records what goes wrong or out."""
    contexts = []

    def open_page(kind, *, width=1200, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto((folder / f"{kind}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def shown(page):
    """The numbers under the slider."""
    return page.locator(".numbers dd").all_inner_texts()


@pytest.mark.parametrize("kind", KINDS)
def test_the_slider_moves_the_numbers(opened, kind):
    page = opened(kind)
    slider = page.get_by_role("slider")
    at_start, call = shown(page), page.locator("#call").inner_text()
    assert slider.get_attribute("aria-valuetext").startswith(at_start[0])
    slider.focus()
    slider.press("End")
    at_end = shown(page)
    assert at_end != at_start
    assert at_end[2] == "0 %"  # what the promise is about
    assert page.locator("#call").inner_text() != call
    assert slider.get_attribute("aria-valuetext").startswith(at_end[0])
    slider.press("ArrowLeft")
    assert shown(page) != at_end
    slider.press("Home")
    assert float(shown(page)[0].replace(",", "")) < float(at_end[0].replace(",", ""))
    assert page.complaints == []


@pytest.mark.parametrize("kind", KINDS)
def test_markers_follow_the_curve(opened, kind):
    page = opened(kind)
    place = "m => [Number(m.getAttribute('cx')), Number(m.getAttribute('cy'))]"
    markers = page.locator(".marker")
    page.get_by_role("slider").press("Home")
    before = [markers.nth(i).evaluate(place) for i in range(markers.count())]
    page.get_by_role("slider").press("End")
    after = [markers.nth(i).evaluate(place) for i in range(markers.count())]
    assert len(before) == 2
    assert all(new[0] > old[0] for old, new in zip(before, after, strict=True))


def test_the_predictor_as_it_is_is_pointed_out(opened):
    page = opened("scores")
    note = page.locator("#shipped")
    assert note.is_visible()
    page.get_by_role("slider").press("End")
    assert not note.is_visible()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_requested_and_nothing_goes_wrong(opened, folder, kind):
    page = opened(kind)
    page.wait_for_load_state("networkidle")
    assert page.requests == [(folder / f"{kind}.html").as_uri()]
    assert page.complaints == []


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_every_width_with_text_of_a_readable_size(opened, kind, width):
    page = opened(kind, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = page.evaluate(
        "[...document.querySelectorAll('svg text, p, td, th, dt, dd')].filter(e => e.checkVisibility())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ? e.getScreenCTM().a : 1))"
    )
    assert min(heights) >= 9


@pytest.mark.parametrize(("kind", "scheme"), [*((kind, "light") for kind in KINDS), ("scores", "dark")])
def test_axe_finds_no_violation(opened, kind, scheme):
    import axe_playwright_python

    page = opened(kind, scheme=scheme)
    script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    found = page.evaluate("axe.run()")
    assert [(rule["id"], rule["help"], rule["nodes"][0]["html"]) for rule in found["violations"]] == []
    assert len(found["passes"]) > 20


def test_light_and_dark_differ(opened):
    paper = [
        opened("scores", scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert paper[0] != paper[1]


def test_printing_is_dark_on_light_and_leaves_out_what_paper_cannot_do(opened):
    page = opened("scores", scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("slider").is_visible()
    assert page.locator("#value-0").is_visible()
    assert len(page.pdf(format="A4")) > 10_000


def test_without_script_the_numbers_are_there(browser, folder):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "scores.html").as_uri())
    assert not page.get_by_role("slider").is_visible()
    assert page.locator("#spent").inner_text() != ""
    context.close()


def test_keyboard_reaches_the_slider_and_shows_where_it_is(opened):
    page = opened("scores")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "budget":
            break
    assert page.evaluate("document.activeElement.id") == "budget"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
