"""Turns summaries of operations into text that reads like a user's request. All templates are our own."""

import re
from pathlib import Path

from text import singular

OPENINGS = """
{} | {} | {} please | please {} | can you {} | could you {} for me | could you please {} | i want to {} | i need to {}
| i'd like to {} | how do i {} | how can i {} | what is the way to {} | help me {} | i am trying to {} | let's {}
| we have to {} today | my team wants to {} | is it possible to {} | show me how to {} | i would like you to {}
| hey, {} | tell me how to {} | before the meeting, {} | as a next step, {} | quickly {} | go ahead and {}
| i have been asked to {} and i don't know where to begin | first of all {} | {}, thanks | {} and tell me the result
| {} and show me what you find | find a way to {} | use a tool to {} | i was wondering whether you could {}
| my boss asked me to {} | {} as soon as possible | what should i do to {} | any suggestions on how to {}
| i'm looking for something to {} | what is the best way to {} | would you {} | is there anything that helps me to {}
""".replace("\n", " ").split("|")
OPENINGS = [opening.strip() for opening in OPENINGS]

TAILS = """
 named 'test-42' | called "alpha" | for user john@example.com | in my account | with id 12345 | from last week | for next monday
 | in Paris | near San Francisco, CA | in the folder /home/anna/report.pdf | since 2023-05-01 | for my company | in resource group 'rg1'
 | for project Apollo | in New York City | between 9am and 5pm | for the customer Maria Lopez | with the default options | of this year
 | in English | as a table | for my friend | on Friday evening | for our new website | in my subscription | at home | for the class
""".replace("\n", " ").split("|")

VERBS = [
    "list|show|display|enumerate|view|what are|see all|give me|get",
    "get|show|fetch|retrieve|look up|find|check|view|what is|read|obtain|tell me",
    "describe|show details of|explain|give information about|get|what is",
    "create|add|make|set up|build|start|new|generate|open",
    "delete|remove|get rid of|drop|erase|cancel|clean up",
    "update|change|modify|edit|adjust|set|replace|fix",
    "search|find|look for|query|look up|locate|discover",
    "send|post|deliver|submit|message|write",
    "start|launch|run|begin|execute|kick off|trigger",
    "stop|end|halt|terminate|cancel|shut down|abort",
    "calculate|compute|work out|determine|figure out|how much is|estimate",
    "convert|turn|transform|translate|change",
    "download|save|export|get a copy of|fetch",
    "upload|import|put|store|save|add",
    "book|reserve|schedule|order|buy|purchase",
    "attach|connect|link|associate|add|join",
    "detach|disconnect|unlink|disassociate|remove",
    "validate|verify|check|test|confirm|make sure of",
    "recommend|suggest|propose|find the best",
    "analyze|examine|inspect|look at|evaluate|study|assess",
]
SYNONYMS = {}
for group in VERBS:
    group = group.split("|")
    SYNONYMS.setdefault(group[0], group[1:])


def phrase(summary):
    """`Creates a new bucket.` is `create a new bucket`."""
    text = summary.strip().rstrip(".").lower()
    text = re.split(r"\. |; ", text)[0]
    head, _, tail = text.partition(" ")
    return head if not tail else f"{singular(head)} {tail}"


def request(summary, rng, synonyms):
    """One request for the operation that `summary` describes. `synonyms`: word -> list, for ordinary words."""
    text = phrase(summary)
    head, _, tail = text.partition(" ")
    if head in SYNONYMS and rng.random() < 0.6:
        head = rng.choice(SYNONYMS[head])
    tail = " ".join(
        rng.choice(synonyms[word]) if word in synonyms and rng.random() < 0.15 else word for word in tail.split()
    )
    text = f"{head} {tail}"
    if rng.random() < 0.3:
        text += rng.choice(TAILS).rstrip()
    if rng.random() < 0.7:
        text = rng.choice(OPENINGS).format(text)
    return text


FILLERS = {
    "city": "paris|london|new york|san francisco, ca|tokyo|berlin|chicago, il|mumbai|rome|sydney|beijing|austin|toronto|madrid"
    "|los angeles|cape town|seoul|lisbon|portland|vancouver|dubai|mexico city|oslo|vienna|boston, ma|hanoi|cairo|lima",
    "place": "central park|the airport|main station|the hilton|grand hotel|the harbour|city hall|the university|golden gate"
    "|joe's diner|the old town|union square|the mall|blue note|the stadium",
    "street": "12 main street|5th avenue|24 elm road|221b baker street|sunset boulevard 100|42 oak lane",
    "date": "tomorrow|next friday|march 3rd|2024-06-15|the 12th of may|this weekend|today|on monday|next week|july 4th 2023"
    "|tonight|april 21, 2023|in two weeks|sunday",
    "time": "9 am|10:30|noon|5 pm|18:00|half past seven|8 in the morning",
    "person": "anna|john smith|maria lopez|dr. lee|peter|ravi kumar|jennifer|tom hanks|einstein|taylor|my sister|bob|yuki tanaka",
    "number": "2|3|5|12|42|100|1234|2018|seven|four",
    "money": "$50|100 dollars|20 euros|1500 usd|$250,000|30 pounds",
    "company": "acme|apple|tesla|contoso|google|northwind|ikea|nike|amazon",
    "food": "pizza|sushi|tacos|pasta|curry|dumplings|salad|pancakes|noodles|steak",
    "thing": "the matrix|quantum physics|gardening|blue moon|machine learning|harry potter|the moon landing|guitar|photography"
    "|climate change|hello world|the lion king|headphones|bicycle",
}
FILLERS = {key: values.split("|") for key, values in FILLERS.items()}


def everyday(path=Path(__file__).with_name("everyday.txt")):
    """(name, description, [request with placeholders]) of each line."""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, description, requests = (part.strip() for part in line.split(" :: "))
            yield name, description, [request.strip() for request in requests.split("|")]


def fill(request, rng):
    return re.sub(r"\{(\w+)\}", lambda match: rng.choice(FILLERS[match.group(1)]), request)
