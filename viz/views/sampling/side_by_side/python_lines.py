"""The Python lines that write the same texts."""

from collections.abc import Sequence

from viz.seam.python_lines import loading
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side.run import Request, Row, before, plan_of

_IMPORTS = (
    "from model.api import load_model",
    "from model.sampling.pipeline import Step",
    "from model.generation.text_statistics import written",
)


def lines(request: Request, names: Sequence[str]) -> str:
    """Return the lines that leave the token ids that each strategy writes in `texts`."""
    load, more = f"lm = {loading(request.model.id)}", []
    if request.settings.eight:
        load, more = f"lm = int8({loading(request.model.id)})", ["from model.quantization.int8 import int8"]
    if any(row.strategy.memory for row in request.rows):
        more = [*more, "from model.forgetting.policies import Policy"]
    code = strategies.code([row.strategy for row in request.rows], names)
    if request.kind == "start":
        imports = [*_IMPORTS, *more, "from model.generation.strategies import Strategy"]
        return "\n".join([*sorted(imports), "", load, *code, *_together(request)])
    imports = [
        *_IMPORTS,
        *more,
        "from model.generation.strategies import Plan, Strategy",
        "from model.generation.generate import generate",
    ]
    alone = [line for at, row in enumerate(request.rows) for line in _alone(request, row, at)]
    return "\n".join([*sorted(imports), "", load, *code, "texts = []", f"prompt = {list(request.prompt)}", *alone])


def _together(request: Request) -> list[str]:
    """Return all from the prompt, in one batch."""
    common = request.settings
    arguments = f"{common.tokens}, {common.seed}, shared={common.shared}, stop={common.stop!r}"
    prompt = strategies.prompt_code(request.asked, common.chat)
    return [
        f"ticks = lm.generate({prompt}, strategies, {arguments})",
        "texts = [list(text.ids) for text in written(ticks, len(strategies))]",
    ]


def _alone(request: Request, row: Row, at: int) -> list[str]:
    """Return one text from where it was left."""
    plan = plan_of(request, row)
    ending = f"frozenset({sorted(plan.ending)})" if plan.ending else "frozenset()"
    return [
        f"before = {list(before(request, row)[len(request.prompt) :])}  # what was written, and what was chosen",
        f"plan = Plan({plan.max_new_tokens}, {plan.seed}, {plan.shared}, first_step={plan.first_step}, "
        f"prompt=len(prompt), ending={ending}, stop={plan.stop!r}, numbers={plan.numbers})",
        f"ticks = generate(lm.model, prompt + before, strategies[{at}:{at + 1}], plan, lm.tokenizer.vocab_size, "
        "lm.decode)",
        "texts += [before + list(text.ids) for text in written(ticks, 1)]",
    ]
