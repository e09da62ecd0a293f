"""The loop with a scripted model: tools are really called, their answers are read, and it ends."""

from model.prompting.react import TranscriptStep, first_call, run
from model.prompting.tools import toolbox

TOOLS = toolbox({"Norway": "Oslo"})


def scripted(*rounds):
    """A writer that says these texts, round after round, and remembers what it was given."""
    given, left = [], list(rounds)

    def write(texts, which):
        given.append((list(texts), list(which)))
        said = left.pop(0) if len(left) > 1 else left[0]
        return [said[at] for at in which]

    return write, given


def test_the_real_observation_is_read_before_the_next_thought():
    write, given = scripted(
        {
            0: " I add.\nAction: calculate[17 + 25]\nObservation: 99\nAction: finish[99]",
            1: " I know.\nAction: finish[7]",
        },
        {0: "Action: finish[42]"},
    )
    one, two = run(["Question: a\nThought:", "Question: b\nThought:"], write, TOOLS)
    assert one.answer == "42" and one.ended == "finished" and one.calls == 1
    assert one.steps == (
        TranscriptStep("model", " I add.\nAction: calculate[17 + 25]"),  # its own observation of 99 is cut off
        TranscriptStep("tool", "\nObservation: 42\n"),
        TranscriptStep("model", "Action: finish[42]"),
    )
    assert given[1] == (["Question: a\nThought: I add.\nAction: calculate[17 + 25]\nObservation: 42\n"], [0])
    assert (
        two.answer == "7" and two.calls == 0 and two.steps == (TranscriptStep("model", " I know.\nAction: finish[7]"),)
    )


def test_a_model_that_never_finishes_is_stopped():
    write, given = scripted({0: "Action: lookup[Norway]"})
    (episode,) = run(["Thought:"], write, TOOLS, most=3)
    assert episode.ended == "too many steps" and episode.answer == "" and episode.calls == 3 and len(given) == 4
    assert [step.text for step in episode.steps if step.by == "tool"] == ["\nObservation: Oslo\n"] * 3


def test_a_text_without_a_call_ends():
    write, _ = scripted({0: " I have no idea"})
    (episode,) = run(["Thought:"], write, TOOLS)
    assert episode.ended == "no action" and episode.answer == "" and episode.calls == 0


def test_an_unknown_tool_answers_that_it_is_none():
    write, _ = scripted({0: "Action: shell[ls]"}, {0: "Action: finish[no]"})
    (episode,) = run(["Thought:"], write, TOOLS)
    assert episode.steps[1] == TranscriptStep("tool", "\nObservation: no such tool\n") and episode.answer == "no"


def test_what_counts_is_the_first_call():
    assert first_call("[hm] calculate[1] calculate[2]") == ("[hm] calculate[1]", ("calculate", "1"))
    assert first_call("nothing here") == ("nothing here", None)
    assert first_call("thought\nObservation: calculate[1]") == ("thought", None)
