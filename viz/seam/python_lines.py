"""The Python code that reproduces the numbers of a figure."""

from collections.abc import Sequence

from model.gpt.edits import Edit
from model.in_memory import IN_MEMORY
from viz.seam.view import Facts
from viz.work.prompt import python_of


def script(facts: Facts, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    """Build the script of a figure: load its model, run its prompt with its edits as `run`, then `lines`."""
    imports = [_import(facts.model_id), *imports]
    imports += ["from model.gpt.edits import Edit"] if facts.edits else []
    run = f"run = lm.trace({python_of(facts.prompt)})"
    if facts.edits:
        run += f".edit({', '.join(_edit(edit) for edit in facts.edits)})"
    return "\n".join([*sorted(set(imports)), "", f"lm = {loading(facts.model_id)}", run, *lines])


def model_script(facts: Facts, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    """Build the script of a figure that does not depend on a prompt: load its model, then `lines`."""
    imports = sorted({_import(facts.model_id), *imports})
    return "\n".join([*imports, "", f"lm = {loading(facts.model_id)}", *lines])


def loading(model_id: str) -> str:
    """Build the call that loads a model; one that was trained on the page is loaded from the downloaded folder, and one
    in memory is that of the caller.
    """
    if model_id.startswith(IN_MEMORY):
        return "language_model(hf_model, tokenizer)"
    name = "the folder of the downloaded model" if model_id.startswith("trained:") else model_id
    return f"load_model({name!r})"


def _import(model_id: str) -> str:
    if model_id.startswith(IN_MEMORY):
        return "from model.in_memory import language_model"
    return "from model.api import load_model"


def _edit(edit: Edit) -> str:
    values = {name: value for name, value in vars(edit).items() if name != "kind" and value is not None}
    fields = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"Edit({edit.kind!r}, {fields})"


def logits_python(facts: Facts) -> str:
    """Return the expression of the logits at the selected position: of the next token, or of the masked one there."""
    at = facts.position
    return f"masked_logits(run, {at}, lm.tokenizer.mask_id)" if facts.config.two_way else f"run.logits_at({at})"


def logits_imports(facts: Facts) -> list[str]:
    """Return the imports of `logits_python`."""
    return ["from model.predictions.masked import masked_logits"] if facts.config.two_way else []
