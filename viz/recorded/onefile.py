"""A self-contained HTML file with the viewer, Plotly and a document: it works from the disk, without a network."""

import base64
import html
import json
import re
import secrets
from collections.abc import Mapping


def page(document: Mapping, *, script: str, style: str, plotly: str) -> str:
    """Build the file. Texts of the document are data for the viewer, which shows them as text; no other script runs.

    script: the viewer as a module. style: its styles. plotly: the script of Plotly.
    """
    nonce = base64.b64encode(secrets.token_bytes(16)).decode()
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    title, language = html.escape(str(document["title"])), html.escape(str(document["language"]), quote=True)
    styles = style.replace("</", "<\\/")
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
        '<div class="gradio-container"><div id="viewer" data-part="viewer"></div></div>\n'
        f'<script type="application/json" id="attention">{as_json(document)}</script>\n'
        f'<script nonce="{nonce}">{inlined(plotly)}</script>\n'
        f'<script type="module" nonce="{nonce}">{inlined(script)}</script>\n</body>\n</html>\n'
    )


def as_json(value: Mapping) -> str:
    """Write a value as JSON without any character that HTML would interpret."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def inlined(script: str) -> str:
    """Return a script that contains neither its own end tag nor "<!--", which would change how the end tag is read."""
    return re.sub(r"<(?=/script)", r"\\x3c", script, flags=re.IGNORECASE).replace("<!--", "\\x3c!--")
