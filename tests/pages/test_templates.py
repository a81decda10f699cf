"""Every template compiles, and none holds what the Content-Security-Policy forbids."""

from __future__ import annotations

import re

import pytest
from selectolax.lexbor import LexborHTMLParser

from webapp.web.edge import LINK
from webapp.web.render import environment, static_folder, static_url, template_folder

TEMPLATES = sorted(environment.list_templates())
EVENT_ATTRIBUTE = re.compile(r"\son[a-z]+\s*=", re.IGNORECASE)


@pytest.mark.parametrize("name", TEMPLATES)
def test_it_compiles(name: str) -> None:
    environment.get_template(name)


@pytest.mark.parametrize("name", TEMPLATES)
def test_nothing_is_inline(name: str) -> None:
    source = (template_folder() / name).read_text(encoding="utf-8")
    markup = LexborHTMLParser(source)
    assert markup.css("style, [style]") == []
    assert [script for script in markup.css("script") if "src" not in script.attributes] == []
    assert not EVENT_ATTRIBUTE.search(source)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_address_can_get_a_prefix(name: str) -> None:
    source = (template_folder() / name).read_text(encoding="utf-8")
    for attribute in re.findall(r'\s([\w:-]+)="/', source):
        assert LINK.search(f' {attribute}="/exports"'), attribute


def test_every_icon_that_is_used_is_drawn() -> None:
    drawn = set(re.findall(r'<symbol id="([a-z]+)"', (static_folder() / "icons.svg").read_text(encoding="utf-8")))
    sources = [path.read_text(encoding="utf-8") for path in template_folder().rglob("*.html")]
    used = {name for source in sources for name in re.findall(r'icon\("([a-z]+)"', source)}
    assert used
    assert used <= drawn


def test_the_address_of_a_file_changes_with_its_content() -> None:
    assert re.fullmatch(r"/static/app\.css\?v=[0-9a-f]{12}", static_url("app.css"))
    assert static_url("missing.css") == "/static/missing.css"
