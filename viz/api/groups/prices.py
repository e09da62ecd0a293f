"""What a conversation costs by a table of prices."""

from typing import Annotated

from model.anatomy.prices import bundled, cost, most_turns, read_prices, talk
from viz.api.arguments import Long, Within
from viz.page.playground import Playground
from viz.views.anatomy.prices.view import MOST, TURNS

Tokens = Annotated[int, Within(1, MOST)]


def prices(
    playground: Playground,
    question: Tokens = 1000,
    answer: Tokens = 300,
    turns: Annotated[int, Within(1, TURNS)] = 10,
    table: Annotated[str, Long()] = "",
) -> dict:
    """What a conversation costs by a dated table of prices, every turn of which sends all earlier ones again.

    Args:
        question: Tokens of a question.
        answer: Tokens of an answer.
        turns: Questions and answers of the conversation.
        table: A CSV with the columns model, context, input, output, currency, as_of, source and, where there is one,
            cached_input; prices for a million tokens. Empty: the table that comes with the app, whose prices are those
            of the days beside them and not today's.

    Returns:
        tokens: fresh, again, written, context; prices: each line with the cost of the conversation, whether it fits the
        context, and the turns that do; cheapest first.
    """
    told, rows = talk(question, answer, turns), []
    for price in read_prices(table or bundled()):
        found = cost(price, told)
        rows.append(
            vars(price)
            | {
                "fresh": found.fresh,
                "again": found.again,
                "written": found.written,
                "total": found.total,
                "fits": found.fits,
                "most_turns": most_turns(price, question, answer),
            }
        )
    return {"tokens": vars(told), "prices": sorted(rows, key=lambda row: row["total"])}
