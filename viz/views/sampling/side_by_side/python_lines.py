"""The Python lines that generate the same texts."""

from collections.abc import Sequence

from viz.seam.python_lines import loading
from viz.views.sampling import pipelines, strategies
from viz.views.sampling.side_by_side.run import TextRow, TextsRequest, before, plan_of

_IMPORTS = (
    "from model.api import load_model",
    "from model.sampling.pipeline import Step",
    "from model.generation.text_statistics import written",
)


def lines(request: TextsRequest, names: Sequence[str]) -> str:
    """Build the lines that collect the token ids of each strategy's text in `texts`."""
    load, more = f"lm = {loading(request.model.id)}", []
    if request.settings.eight:
        load, more = f"lm = int8({loading(request.model.id)})", ["from model.quantization.int8 import int8"]
    more = [*more, *pipelines.step_imports([step for row in request.rows for step in row.strategy.steps])]
    if any(row.strategy.memory for row in request.rows):
        more = [*more, "from model.forgetting.policies import Policy"]
    code = strategies.code([row.strategy for row in request.rows], names)
    if request.kind == "start":
        imports = [*_IMPORTS, *more, "from model.generation.strategies import Strategy"]
        return "\n".join([*sorted(imports), "", load, *code, *_together(request)])
    imports = [
        *_IMPORTS,
        *more,
        "from model.generation.strategies import DecodingPlan, Strategy",
        "from model.generation.generate import generate",
    ]
    texts = [line for index, row in enumerate(request.rows) for line in _continuation(request, row, index)]
    return "\n".join([*sorted(imports), "", load, *code, "texts = []", f"prompt = {list(request.prompt)}", *texts])


def _together(request: TextsRequest) -> list[str]:
    """Build the lines that generate all texts from the prompt in one batch."""
    common = request.settings
    arguments = f"{common.tokens}, {common.seed}, shared={common.shared}, stop={common.stop!r}"
    prompt = strategies.prompt_code(request.page_prompt, common.chat)
    return [
        f"ticks = lm.generate({prompt}, strategies, {arguments})",
        "texts = [list(text.ids) for text in written(ticks, len(strategies))]",
    ]


def _continuation(request: TextsRequest, row: TextRow, index: int) -> list[str]:
    """Build the lines that continue one text after its tokens so far. `index`: the index of its strategy."""
    plan = plan_of(request, [row])
    ending = f"frozenset({sorted(plan.ending)})" if plan.ending else "frozenset()"
    return [
        f"before = {list(before(request, row)[len(request.prompt) :])}  # generated so far, and the selected token",
        f"plan = DecodingPlan({plan.max_new_tokens}, {plan.seed}, {plan.shared}, first_step={plan.first_step}, "
        f"prompt=len(prompt), ending={ending}, stop={plan.stop!r}, numbers={plan.numbers})",
        f"ticks = generate(lm.model, prompt + before, strategies[{index}:{index + 1}], plan, lm.tokenizer.vocab_size, "
        "lm.decode)",
        "texts += [before + list(text.ids) for text in written(ticks, 1)]",
    ]
