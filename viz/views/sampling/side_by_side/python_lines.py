"""The Python lines that write the same texts."""

from collections.abc import Sequence

from viz.page.python_lines import loading
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side.run import Row, Wanted, before, plan_of

_IMPORTS = (
    "from model.api import load_model",
    "from model.sampling.pipeline import Step",
    "from model.generation.text_statistics import written",
)


def lines(wanted: Wanted, names: Sequence[str]) -> str:
    """Lines that leave the token ids that each strategy writes in `texts`."""
    load, more = f"lm = {loading(wanted.model.id)}", []
    if wanted.settings.eight:
        load, more = f"lm = int8({loading(wanted.model.id)})", ["from model.quantization.int8 import int8"]
    made = strategies.code([row.strategy for row in wanted.rows], names)
    if wanted.kind == "start":
        imports = [*_IMPORTS, *more, "from model.generation.strategies import Strategy"]
        return "\n".join([*sorted(imports), "", load, *made, *_together(wanted)])
    imports = [
        *_IMPORTS,
        *more,
        "from model.generation.strategies import Plan, Strategy",
        "from model.generation.generate import generate",
    ]
    alone = [line for at, row in enumerate(wanted.rows) for line in _alone(wanted, row, at)]
    return "\n".join([*sorted(imports), "", load, *made, "texts = []", f"prompt = {list(wanted.prompt)}", *alone])


def _together(wanted: Wanted) -> list[str]:
    """All from the prompt, in one batch."""
    told = wanted.settings
    given = f"{told.tokens}, {told.seed}, shared={told.shared}, stop={told.stop!r}"
    prompt = strategies.prompt_code(wanted.text, told.chat)
    return [
        f"ticks = lm.generate({prompt}, strategies, {given})",
        "texts = [list(text.ids) for text in written(ticks, len(strategies))]",
    ]


def _alone(wanted: Wanted, row: Row, at: int) -> list[str]:
    """One text from where it was left."""
    plan = plan_of(wanted, row)
    ending = f"frozenset({sorted(plan.ending)})" if plan.ending else "frozenset()"
    return [
        f"before = {list(before(wanted, row)[len(wanted.prompt) :])}  # what was written, and what was chosen",
        f"plan = Plan({plan.max_new_tokens}, {plan.seed}, {plan.shared}, first_step={plan.first_step}, "
        f"prompt=len(prompt), ending={ending}, stop={plan.stop!r}, numbers={plan.numbers})",
        f"ticks = generate(lm.model, prompt + before, strategies[{at}:{at + 1}], plan, lm.tokenizer.vocab_size, "
        "lm.decode)",
        "texts += [before + list(text.ids) for text in written(ticks, 1)]",
    ]
