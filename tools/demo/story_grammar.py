"""The engine of the stories: templates, characters, and a story that grows paragraph by paragraph.

A template is plain text with [this|that] for a free choice (may be nested), {A.his} for a known word.
"""
import re

import story_words as w

_compiled = {}


def _parse(text, pos, closing):
    branches, items, start = [], [], pos
    while pos < len(text):
        c = text[pos]
        if c in "[{|]":
            if c == "|" and not closing:
                pos += 1
                continue
            if pos > start:
                items.append(text[start:pos])
            if c == "[":
                node, pos = _parse(text, pos + 1, True)
                items.append(node)
            elif c == "{":
                end = text.index("}", pos)
                items.append((text[pos + 1:end],))
                pos = end + 1
            elif c == "|":
                branches.append(items)
                items, pos = [], pos + 1
            else:
                if not closing:
                    raise ValueError("stray ] in " + text)
                branches.append(items)
                return branches, pos + 1
            start = pos
        else:
            pos += 1
    if closing:
        raise ValueError("missing ] in " + text)
    if pos > start:
        items.append(text[start:pos])
    branches.append(items)
    return branches, pos


def _walk(items, rng, env, out):
    for item in items:
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, tuple):
            out.append(env[item[0]])
        else:
            _walk(item[int(rng.random() * len(item))], rng, env, out)


def expand(template, rng, env):
    tree = _compiled.get(template)
    if tree is None:
        tree = _compiled[template] = _parse(template, 0, False)[0][0]
    out = []
    _walk(tree, rng, env, out)
    return "".join(out)


_double_stop = re.compile(r'([?!])(?:,"|"\.)')
_spaces = re.compile(r" {2,}")
_before_stop = re.compile(r" +([.,!?])")
_article = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])(?!one|uni|use|eu)")
_start = re.compile(r'((?:^|[.!?] |\." )"?|(?<=\s)")([a-z])')


def tidy(text):
    """Articles, capitals at the start of sentences and quotes (not of ~"quotes that go on"), no double spaces."""
    text = _spaces.sub(" ", text).strip()
    text = _before_stop.sub(r"\1", text)
    text = _double_stop.sub(r'\1"', text)
    text = _article.sub(r"\1n ", text)
    text = _start.sub(lambda m: m.group(1) + m.group(2).upper(), text)
    return text.replace("~", "")


PRONOUNS = {"f": ("she", "her", "her", "herself"), "m": ("he", "him", "his", "himself")}


def put(env, key, name, gender, **more):
    """Enter a character under a letter: {A}, {A.he}, {A.his}, ..."""
    he, him, his, himself = PRONOUNS[gender]
    env[key] = name
    for k, v in (("he", he), ("him", him), ("his", his), ("self", himself)):
        env[key + "." + k] = v
    for k, v in more.items():
        env[key + "." + k] = v


class Story:
    def __init__(self, rng):
        self.rng = rng
        self.env = {}
        self.paragraphs = []
        self.used = set()       # names and kinds already in the story
        self.season = self.pick(list(w.SEASONS))
        self.env["x"], self.env["y"] = rng.sample(w.JUNK, 2)
        self.env["oneday"] = expand(self.pick(w.SEASONS[self.season]), rng, {})
        self.env["oneday.low"] = self.env["oneday"][0].lower() + self.env["oneday"][1:]

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def chance(self, p):
        return self.rng.random() < p

    def t(self, template):
        return expand(template, self.rng, self.env)

    def set(self, key, template):
        self.env[key] = self.t(template)

    def p(self, *templates):
        """One paragraph."""
        text = " ".join(x for x in (self.t(t) for t in templates) if x)
        text = tidy(text)
        if text:
            self.paragraphs.append(text)

    def text(self):
        return "\n\n".join(self.paragraphs)

    # --- who ---
    def fresh(self, items):
        while True:
            x = self.pick(items)
            key = x if isinstance(x, str) else x[0]
            if key not in self.used:
                self.used.add(key)
                return x

    def invented(self):
        r = self.pick
        name = r(w.NAME_START) + r(w.NAME_VOWEL) + (r(w.NAME_MIDDLE) + r(w.NAME_END) if self.chance(.8) else r(["n", "m", "x", "l", "p", "t"]))
        self.used.add(name)
        return name

    def child(self, key):
        gender = self.pick("fm")
        kind, home = "girl" if gender == "f" else "boy", self.pick(w.CHILD_HOMES)
        if self.chance(.15):
            kind, gender, home = self.pick(w.PEOPLE)
        name = self.invented() if self.chance(.3) else self.fresh(w.GIRLS if gender == "f" else w.BOYS)
        his = PRONOUNS[gender][2]
        put(self.env, key, name, gender, kind=kind, tag=name, voc=name, home=home.replace("{his}", his),
            moved=self.pick(["walked", "ran", "skipped", "hurried"]), joy=self.pick(w.CHILD_JOY).replace("{his}", his),
            food=self.pick(w.CHILD_FOOD), intro="a %s %s named %s" % (self.pick(w.SIZES[:3]), kind, name), hand="hand", hands="hands")

    def animal(self, key, kinds=None):
        kind = self.fresh(kinds or list(w.ANIMALS))
        gender = self.pick("fm")
        his = PRONOUNS[gender][2]
        name = self.invented() if self.chance(.3) else self.fresh(w.PETS)
        home, moved, joy, food = w.ANIMALS[kind]
        looks = w.LOOKS.get(kind, [])
        adj = "" if self.chance(.15) else self.pick(w.SIZES) + (" " + self.pick(looks) if looks and self.chance(.35) else "")
        hand = w.HANDS.get(kind, "paw")
        put(self.env, key, name, gender, kind=kind, tag=name + " the " + kind, voc=name, home=home, moved=moved, joy=joy.replace("{his}", his), food=food,
            intro=self.pick(["a %s %s named %s", "a %s %s called %s"]) % (adj, kind, name), hand=hand, hands=w.PLURALS.get(hand, hand + "s"))

    def hero(self, key="A"):
        self.human = self.chance(.45)
        (self.child if self.human else self.animal)(key)
        self.env["friendkind"] = "children" if self.human else "animals"

    def friend(self, key="B"):
        """Someone of the hero's own world; children may also meet talking animals."""
        if self.human and self.chance(.6):
            self.child(key)
        else:
            self.animal(key)

    def elder(self, key="C"):
        a, the, gender, long = self.fresh(w.ELDERS)
        put(self.env, key, the, gender, intro=self.pick([a, long]), voc=the)

    def parent(self, key="M", owner="A"):
        role, voc, gender = self.pick([("mother", "Mother", "f"), ("mother", "Mama", "f"), ("mother", "Mom", "f"), ("father", "Father", "m"),
                                       ("father", "Papa", "m"), ("father", "Dad", "m"), ("grandmother", "Grandma", "f"), ("grandfather", "Grandpa", "m")])
        put(self.env, key, self.env[owner + ".his"] + " " + role, gender, role=role, voc=voc)

    # --- what and where ---
    def toy(self, key="o", only=None):
        name, adjectives, did, doing = self.fresh([t for t in w.TOYS if not only or t[0] in only])
        adj = self.pick(w.COLORS if self.chance(.6) else adjectives)
        self.env[key] = name
        self.env[key + ".full"] = adj + " " + name
        self.env[key + ".a"] = "a " + adj + " " + name
        self.env[key + ".did"] = self.t(did)
        self.env[key + ".doing"] = self.t(doing)
        self.env["giver"] = self.t(self.pick(w.GIVERS))

    def place(self, key="p", only=None):
        home = self.env["A.home"]
        name = self.fresh([x for x in only or w.PLACES if x not in home] or list(w.PLACES))
        to, at, spots, views = w.PLACES[name]
        spots = self.rng.sample(spots, 3)
        self.env[key] = "the " + name
        self.env[key + ".to"], self.env[key + ".at"] = to, at
        for i in range(3):
            self.env["%s.spot%d" % (key, i + 1)] = spots[i]
        self.env[key + ".view"] = self.pick(views)

    def hobby(self, key="h"):
        self.env[key + ".do"], self.env[key + ".doing"], self.env[key + ".did"] = self.fresh(w.HOBBIES)

    # --- the parts that every story shares ---
    def open(self, extra=""):
        self.hobby()
        self.env["good"] = self.pick(w.GOOD_TRAITS)
        begin = self.pick([
            "Once upon a time, there was {A.intro}. {A} lived {A.home}.",
            "Once upon a time, {A.intro} lived {A.home}.",
            "There once was {A.intro} who lived {A.home}.",
            "{A} was a [little|young|small] {A.kind} who lived {A.home}.",
            "{A} was a {good} {A.kind}. {A.he} lived {A.home}.",
            "{A.home}, there lived {A.intro}.",
            "A long time ago, there was {A.intro}. {A.he} lived {A.home}.",
            "{A.tag} lived {A.home}.",
            "This is the story of {A.intro}. {A} lived {A.home}.",
            "Once there was {A.intro}.", "There once was {A.intro}.", "There was once {A.intro}, and {A.he} lived {A.home}.",
            "In a land far away, there lived {A.intro}.", "Once upon a time, in a land far away, there lived {A.intro}.",
            "Once upon a time, there lived {A.intro}.", "{A} was a [little|young|small] {A.kind} who loved to {h.do}.",
            "[The sun was shining|It was a rainy day|The wind was blowing|The moon was shining|The birds were singing|It was a quiet evening|Snow was falling|It was early in the morning], and {A.intro} was [looking out of the window|sitting at the door|thinking of all kinds of things|humming a song].",
            "One day, {A.intro} [woke up early|woke up with a smile|had a wonderful dream|was in a very good mood]. {A} lived {A.home}."])
        detail = self.pick([
            "{A} loved to {h.do}.", "{A.he} was very {good}, and {A.he} loved to {h.do}.", "Every day, {A} {h.did}.",
            "{A}'s favorite thing was {h.doing}.", "{A.he} was {good} and liked {h.doing}.", "{A.he} liked {A.food} and {h.doing}.",
            "Everybody liked {A}, because {A.he} was so {good}.", "Most of all, {A.he} loved {A.food}.",
            "{A} was always {good}, even on rainy days.", "", "When the sun was shining, {A} liked to {h.do}.", ""])
        if "{h." in begin:
            detail = ""
        self.p(begin, detail, extra)

    def close(self, *morals):
        """The way home and the moral: one, both or neither is said aloud."""
        end = self.pick([
            "That night, {A} fell asleep with a [big |happy |]smile on {A.his} face.",
            "When the moon came up, {A} was fast asleep[ and dreamed happy dreams|].",
            "{A} went home [tired but happy|with a light heart|happy and proud], and {A.he} had {A.food} for supper.",
            "What a day that was!", "[And they all lived happily ever after.|The end.]",
            "{A} told everyone at home about it, and they [laughed and laughed|listened with big eyes|were all very proud].",
            "{A} could hardly wait for the next day.", "", "", "And the stars twinkled [over the roofs|in the sky] as if they were smiling, too."])
        moral = self.pick(list(morals))
        if self.chance(.8):
            moral = self.pick(["{A} had learned that %s.", "From that day on, {A} knew that %s.", "And {A} never forgot that %s.",
                               "And so {A} learned that %s.", "That day, {A} found out that %s."]) % moral
        else:
            moral = ""
        parts = [moral, end] if self.chance(.6) else [end, moral]
        if "happily" in end:
            parts = [moral, end]
        self.p(*parts)
