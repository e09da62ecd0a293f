"""The first frame: what a page shows until its scripts have arrived, in the visitor's theme and language.

A browser paints nothing while a style sheet of the head is on its way, and the page's configuration is large. So the
head ends right after its base address, and this frame begins the body; everything else follows it. The page's script
removes the frame.
"""

import functools
import html

from viz.page.examples import FIRST
from viz.words import words

FRAME = "pg-first"  # id of the frame, removed in static/page/nav.js

# Runs before the first paint; static/page/theme.js keeps the choice.
THEME = (
    "(()=>{let t=null;try{t=localStorage.getItem('playground-theme')}catch{}"
    "t??=new URLSearchParams(location.search).get('__theme');"
    "const dark=t==='dark'||(t!=='light'&&matchMedia('(prefers-color-scheme: dark)').matches);"
    "document.documentElement.dataset.theme=dark?'dark':'light'})()"
)
STYLE = (
    f"#{FRAME}{{position:fixed;inset:0;z-index:1;box-sizing:border-box;padding:14px clamp(12px,2.4vw,32px);"
    "background:#fff;color:#1d2330;font:14px/20px ui-sans-serif,system-ui,sans-serif}"
    f"[data-theme=dark] #{FRAME}{{background:#0b0f19;color:#e6e9f0}}"
    f"#{FRAME} h1{{margin:0 0 8px;font:650 17px/34px ui-sans-serif,system-ui,sans-serif}}"
    f"#{FRAME} p{{margin:0 0 14px;padding:6px 10px;border:1px solid #8883;border-radius:6px}}"
    f"#{FRAME} span{{opacity:.75}}"
)


@functools.cache
def first_frame(language: str) -> str:
    """Build the rest of the head and the beginning of the body in a language."""
    catalogue = words(language)
    title, prompt, arriving = (
        html.escape(text) for text in (catalogue["page.title"], FIRST, catalogue["page.arriving"])
    )
    return (
        '<meta name="viewport" content="width=device-width, initial-scale=1, shrink-to-fit=no">'
        f"<script>{THEME}</script><style>{STYLE}</style></head><body>"
        f'<div id="{FRAME}" role="status" lang="{language}"><h1>{title}</h1><p>{prompt}</p>'
        f"<span>{arriving}</span></div>"
    )
