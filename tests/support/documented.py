"""The Python of a page of documentation, run as one session. It imports nothing of the project."""

import ast
import doctest
import re


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def imports(text: str) -> list[str]:
    """Return the imports in the Python of a page, each as one line."""
    examples = doctest.DocTestParser().get_examples
    sources = ("".join(each.source for each in examples(block)) or block for block in blocks(text, "python"))
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def run_blocks(text: str, name: str) -> int:
    """Run all Python of a page as one session, where examples with >>> must print what they show; return its blocks."""
    values: dict = {}
    found = blocks(text, "python")
    for block in found:
        if not block.startswith(">>>"):
            exec(compile(block, name, "exec"), values)
            continue
        examples = doctest.DocTestParser().get_doctest(block, values, name, name, 0)
        assert doctest.DocTestRunner(verbose=False).run(examples, clear_globs=False).failed == 0
        values |= examples.globs
    return len(found)
