"""A trial compilation of a grammar, in a separate process that is limited in time and memory.

Standard input is the grammar; standard output is llguidance's error, or nothing.
"""

import contextlib
import sys

SECONDS = 3  # maximum CPU time
MEMORY = 2 << 30  # maximum address space in bytes


def limit() -> None:
    """Limit this process to SECONDS of CPU time and MEMORY bytes. If that is impossible, only the parent's timeout
    remains.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    source = sys.stdin.read()
    limit()
    from llguidance import LLMatcher

    sys.stdout.write(LLMatcher.validate_grammar(source))
