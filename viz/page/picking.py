"""What is picked, as views read it: the position that is looked at, and the line and the name of a run."""

from model.records import RunKey
from viz.page.scene import Scene, run_id


def position_of(scene: Scene) -> int:
    """The position whose next token is looked at: the last picked token, else the last one of the prompt."""
    return max(scene.picked.tokens, default=len(scene.trace.tokens) - 1)


def source(scene: Scene) -> str:
    """The line below a picture: whose numbers these are."""
    told = scene.words["pattern.source"].format(
        model=scene.model.label, dtype=scene.model.dtype, ms=round(scene.trace.seconds * 1000)
    )
    return f"{told} · {scene.words['pattern.edited']}" if scene.picked.edits else told


def prompt_id(scene: Scene) -> str:
    """A short name for the prompt's tokens, whatever its edits: what is picked on it stays while edits come and go."""
    key = scene.trace.key
    return run_id(RunKey(key.model_id, key.ids), "")
