"""Generated conversations whose later turns ask for what earlier ones told.

Two turns tell who did what, where and when. Then one of them is asked about, and perhaps
once more: "What has Eva bought ? The lamp . And where ? In Oslo ."
"""

from dataclasses import dataclass
from random import Random

from regard.data.generated.questions import append_statement
from regard.data.pairs import Pair
from regard.data.texts import context

FACTS = 2
LONGEST = 50
"""More words than any turn has."""
VALUES = {
    "who": "Ada|Ben|Cleo|Dan|Eva|Finn|Gia|Hugo|Ines|Jan|Kim|Leo|Mia|Noah|Olga|Paul|Rosa|Sam|Tess|Zoe",
    "verb": "bought|sold|found|lost|repaired|painted",
    "what": "lamp|guitar|bicycle|clock|piano|boat|chair|camera|tent|mirror|carpet|kite|drum|ladder|basket|trumpet",
    "where": "Rome|Oslo|Paris|Lima|Cairo|Delhi|Kyoto|Quito|Riga|Sofia|Tunis|Bergen|Porto|Lyon|Turin|Ghent",
    "when": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
}
STATEMENTS = (
    "{who} {verb} the {what} in {where} on {when} .",
    "Yes , and {who} {verb} the {what} on {when} in {where} .",
    "I heard that {who} {verb} the {what} in {where} on {when} .",
)
QUESTIONS = {
    "who": ("Who {verb} the {what} ?", "And who was it ?"),
    "what": ("What has {who} {verb} ?", "And what was it ?"),
    "where": ("Where was the {what} {verb} ?", "And where ?"),
    "when": ("When was the {what} {verb} ?", "And when ?"),
}
"""The first question about a fact, and one that follows another."""
ANSWERS = {
    "who": "{who} .",
    "what": "The {what} .",
    "where": "In {where} .",
    "when": "On {when} .",
}


@dataclass(frozen=True)
class Reply(Pair):
    """A reply and the turns before it that are known, of a whole conversation."""

    conversation: str = ""

    @property
    def text(self) -> str:
        return self.conversation


def make_reply(turns: int, random: Random) -> Reply:
    """Generate the last reply of a conversation, with the last `turns` before it.

    The links are between the slot of the reply and its place in the turn that told it, if
    that turn is known.
    """
    samples = [random.sample(words.split("|"), FACTS) for words in VALUES.values()]
    facts = [
        dict(zip(VALUES, values, strict=True)) for values in zip(*samples, strict=True)
    ]
    told = random.randrange(FACTS)
    said, places = [], {}
    for number, fact in enumerate(facts):
        words = []
        stated = append_statement(random.choice(STATEMENTS), fact, words)
        places = stated if number == told else places
        said.append(words)
    slot = ""
    for number, slot in enumerate(random.sample([*QUESTIONS], random.randint(1, 2))):
        said.append(QUESTIONS[slot][number].format(**facts[told]).split())
        said.append(ANSWERS[slot].format(**facts[told]).split())
    *before, target = said
    first = max(0, len(before) - turns)
    links = frozenset()
    if first <= told:
        start = sum(len(words) + 1 for words in before[first:told])
        answered = append_statement(ANSWERS[slot], facts[told], [])
        links = frozenset([(start + places[slot][0], answered[slot][0])])
    texts = [" ".join(words) for words in before]
    return Reply(
        context(texts, turns, LONGEST),
        " ".join(target),
        "",
        links=links,
        conversation=" ".join([*texts, *target]),
    )
