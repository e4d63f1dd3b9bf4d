"""The prompts that a head is trained and tested on: topics times forms, mixed by a seed.

Those it is tested on share neither topics nor forms with those it is trained on.
"""

import random


def items(text):
    return [item.strip() for item in text.split(";") if item.strip()]


TOPICS = items("""
the water cycle; black holes; the French Revolution; learning to cook; bread baking; the human heart; photosynthesis;
electric cars; remote work; meditation; the Roman Empire; machine learning; dog training; gardening in spring;
solar panels; the history of chess; coffee; time management; the Moon landing; recycling; jazz music;
the Great Wall of China; vaccines; public speaking; climate change; budgeting; volcanoes; the printing press; whales;
yoga; basketball; the periodic table; bees; online learning; ancient Egypt; earthquakes; healthy sleep;
space telescopes; Shakespeare; bicycles; rainforests; inflation; the immune system; sailing; minimalism;
cloud computing; the Olympic Games; penguins; stress at work; the Amazon river; job interviews; cheese; friendship;
the steam engine; dinosaurs; tea in Japan; computer networks; mental health; the stock market; wolves;
the Industrial Revolution; city planning; gravity; painting with watercolours; running a marathon; database indexes;
the ozone layer; teamwork; moving to a new city; antibiotics; the Renaissance; batteries; reading to children;
elephants; open source software; the Silk Road; fasting; wind energy; novels; lighthouses; password security;
the brain; maps; desert plants; the Internet; leadership; bridges; tides; a small bakery; hiking in the Alps;
the violin; glaciers; tax returns; robots in hospitals; a family picnic; the planet Mars; soil; butterflies;
old trains
""")
CHAT = items("""
What is {t}?; Explain {t} to a ten-year-old.; Write a short paragraph about {t}.; Give me five tips about {t}.;
Why does {t} matter?; Write a short story about {t}.; List three interesting facts about {t}.;
Write an email to a colleague about {t}.; What are the advantages and disadvantages of {t}?;
Summarise what you know about {t} in two sentences.; Write a poem about {t}.; How has {t} changed over time?;
I am a beginner. Where do I start with {t}?; Describe {t} in detail.; What are common mistakes people make with {t}?;
Write a blog post introduction on {t}.; Can you help me prepare a talk on {t}?; What should everyone know about {t}?
""")
PLAIN = [
    "Once upon a time, in a place known for {t},",
    "In this article we look at {t}.",
    "The most important thing about {t} is",
    "Q: What is {t}?\nA:",
    "Dear reader, today I want to write about {t}.",
]
CODE = items("""
reverses a string; computes the factorial of a number; checks whether a number is prime; sorts a list of numbers;
finds the largest element of a list; counts words in a text; merges two dictionaries; reads a file line by line;
computes the Fibonacci sequence; removes duplicates from a list; checks for a palindrome;
converts Celsius to Fahrenheit; computes the average of a list; finds common elements of two lists;
flattens a nested list; counts vowels in a string; implements a stack; implements a queue; does a binary search;
computes the greatest common divisor; generates a random password; validates an email address; transposes a matrix;
rotates a list; parses a CSV line; computes the area of a circle; capitalises every word;
finds the second largest number; sums the digits of a number; writes a list to a file
""")
CODE_FORMS = items("""
Write a Python function that {t}.; Write a JavaScript function that {t}.; Write a function that {t} and explain it.;
Show me Python code that {t}, with an example.; Write a Java method that {t}.
""")
JSON = items("""
people with name and age; books with title, author and year; cities with country and population;
products with price and stock; employees with department and salary; movies with director and rating;
recipes with ingredients; cars with make, model and year; students with grades; orders with items and totals;
countries with capital and language; songs with artist and length; pets with species and owner;
hotels with stars and address; flights with origin and destination; planets with mass and radius;
users with email and role; events with date and place; tasks with status and priority; servers with host and port
""")
JSON_FORMS = items("""
Give me a JSON array of {n} {t}.; Write a JSON document that lists {n} {t}.; Return {n} {t} as JSON only.;
Create example JSON data: {n} {t}.
""")

HELD_TOPICS = items("""
coral reefs; the Cold War; knitting; the speed of light; owls; hydrogen fuel; home insurance; the theatre;
an island village; kidneys; pottery; the Black Death; compilers; snow; rugby; the desert fox
""")
HELD_CHAT = items("""
Tell me about {t}.; Write an essay on {t}.; What questions would an expert on {t} ask?;
Give a step-by-step guide to {t}.
""")
HELD_CODE = items("""
checks whether two words are anagrams; computes the median of a list; counts how often each character occurs;
converts a number to binary; implements a bank account with deposit and withdraw; multiplies two matrices;
removes spaces from a string; implements bubble sort
""")
HELD_CODE_FORMS = ["Implement in Python: a program that {t}.", "Give me code which {t}."]
HELD_JSON = items("""
restaurants with cuisine and rating; rivers with length and continent; invoices with number, customer and amount;
sensors with location and temperature; teams with coach and points; courses with teacher and credits
""")
HELD_JSON_FORMS = ["Produce JSON with {n} {t}.", "I need {n} {t} in JSON format."]


def train(seed=1):
    """(kind, prompt) pairs; every beginning of the list is about half chat, a quarter code, a quarter JSON."""
    r = random.Random(seed)
    kinds = {"chat": [], "code": [], "json": []}
    for t in TOPICS:
        kinds["chat"] += [("chat", form.format(t=t)) for form in r.sample(CHAT, 9)]
        kinds["chat"].append(("plain", r.choice(PLAIN).format(t=t)))
    for t in CODE:
        kinds["code"] += [("code", form.format(t=t)) for form in CODE_FORMS]
    for t in JSON:
        counts = r.sample(["two", "three", "4", "5", "a few"], 2)
        kinds["json"] += [("json", form.format(t=t, n=n)) for form in JSON_FORMS for n in counts]
    for prompts in kinds.values():
        r.shuffle(prompts)
    mixed = []
    while any(kinds.values()):
        mixed += [kinds[k].pop() for k in ("chat", "code", "chat", "json") if kinds[k]]
    return mixed


def held():
    """(kind, prompt) pairs to test on."""
    forms = {"chat": (HELD_TOPICS, HELD_CHAT), "code": (HELD_CODE, HELD_CODE_FORMS), "json": (HELD_JSON, HELD_JSON_FORMS)}
    counts = ["two", "three", "4"]
    return [
        (kind, shapes[i % len(shapes)].format(t=t, n=counts[i % 3]))
        for kind, (topics, shapes) in forms.items()
        for i, t in enumerate(topics)
    ]
