"""What a browser is called by people, by what it says of itself. Pure."""

from __future__ import annotations

from webapp.domain.sentences import say

BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "SamsungBrowser/": "Samsung Internet",
    "Firefox/": "Firefox",
    "FxiOS/": "Firefox",
    "CriOS/": "Chrome",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}
"""What each is told by. The first that fits counts: many say that they are others as well."""


def browser_name(agent: str) -> str:
    """`Firefox on Windows`; of what is no browser what it says itself."""
    browser = next((name for sign, name in BROWSERS.items() if sign in agent), "")
    system = next((name for sign, name in SYSTEMS.items() if sign in agent), "")
    if not browser or not agent.startswith("Mozilla/"):
        return agent or say("A browser that does not say its name")
    return say("{browser} on {system}", browser=browser, system=system) if system else browser
