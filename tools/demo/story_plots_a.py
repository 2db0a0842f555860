"""Plots about friends: losing and finding, sharing, helping, quarrels, honesty."""

import story_words as w

CRY = "[{A} began to cry.|Tears came to {A}'s eyes.|{A} felt very sad.|{A}'s lip began to tremble.|A big tear rolled down {A}'s face.|{A} did not know what to do.|{A}'s heart felt heavy.]"
GLAD = "[{A} was so happy that {A.he} {A.joy}.|{A} {A.joy}.|{A}'s heart was full of joy.|{A} laughed with joy.|{A} felt warm inside.|{A} could not stop smiling.]"
WRONG = '["What is wrong[?|, little {A.kind}?]"|"Why are you so sad[?|, little {A.kind}?]"|"Why do you look so sad?"|"What happened?"|"Is something wrong?"] [asked {B}|{B} asked|asked {B} in a soft voice|asked {B}, and sat down beside {A.him}].'
MEET = ["Just then, {B.intro} came [along|by|down the path].", "[Soon|After a while], {A.he} met {B.intro}.",
        "[On the way|There], {A.he} met {B.intro}.", "{B.intro} [saw|heard] {A.him} and came closer.",
        "At that moment, {B.intro} [looked out from behind a tree|came around the corner]."]
FRIENDS = "[From that day on, {A} and {B} were [best friends|the best of friends|good friends].|And so {A} and {B} became friends.|After that, {A} and {B} played together every day.|{A} and {B} were friends from then on.]"


def lost_thing(s):
    s.hero(); s.friend(); s.toy(); s.place(); s.elder()
    s.open("[{A} had {o.a}|{A.he} had {o.a}], [a present from {giver}|which {giver} had given {A.him}]. [It was {A.his} favorite thing in the whole world.|{A.he} took it everywhere.|{A} loved the {o} very much.|{A.he} never went out without it.]")
    s.p("{oneday}, {A} [took the {o} {p.to}|went {p.to} with {A.his} {o}|{A.moved} {p.to} and took the {o} along].",
        "[{p.view}.|] {A} {o.did}[, and {A.he} was very happy|. What fun it was|]. [{A.he} played until the sun was low.|The hours went by quickly.|Then {A.he} lay down for a little nap.]",
        "[When it was time to go home|When {A.he} wanted to go home|Later], {A} looked around. The {o} was gone!")
    s.p('"[Oh no|Oh dear]! Where is my {o}?" [cried|said] {A}.', "{A.he} looked {p.spot1}[, but it was not there|, but there was nothing|, but {A.he} found only a {x}].",
        "[Then {A.he} looked {p.spot2}, but the {o} was not there, either.|{A.he} looked {p.spot2}, but there was nothing but a {y}.|] " + CRY)
    if s.chance(.5):
        s.p(s.pick(MEET), WRONG, '"I [have lost|lost|can\'t find] my {o.full}," said {A}.',
            '"[Don\'t cry|Don\'t worry|Don\'t be sad]," said {B}. "I will help you[ look for it|. Four eyes see more than two|. We will look for it together]."')
    else:
        s.p("{A} asked {C.intro}, \"Have you seen my {o.full}?\"", '"No, I have not," said {C}, ~"[but perhaps your friend {B.tag} can help you|but ask {B.tag}. {B.he} has sharp eyes]."',
            'So {A} [went to|ran to|looked for] {B} and told {B.him} what had happened. "[Of course I will help you|I will help you look]," said {B}.')
    s.p("[Together they looked everywhere.|They looked high and low.|{A} looked on the left side, and {B} looked on the right side.|They walked back the way {A} had come.]",
        "[Suddenly|Then|At last], {B} [stopped|called out]. \"Look! What is that {p.spot3}?\"", "[{A} ran to see.|{A} looked.|{A} hurried over.]")
    end = s.pick("plain plain wind baby".split())
    if end == "baby" and s.env["o"] in w.SOFT_TOYS:
        s.p("It was the {o.full}! But it was not empty. A [tiny mouse|baby bird|little kitten] was sleeping in it. \"[Oh, how sweet|Oh, look how small it is],\" whispered {A}. \"[It must be tired|It must have been cold].\"",
            "[They sat down and waited until the little one woke up.|They waited very quietly.] Then they [carried|took] it home to its mother[, who was very glad|, who thanked them again and again].",
            "And {A} had {A.his} {o} back. " + GLAD)
    elif end == "wind":
        s.p("It was the {o.full}! \"The wind [must have carried|has carried|blew] it here,\" said {B}.", GLAD, '"Thank you, {B}!" [said|cried] {A}. "[You are a true friend|Without you, I would never have found it|You have such good eyes]."')
    else:
        s.p("There was the {o.full}, [safe and sound|a little dusty, but not broken|just where {A} had left it]!", GLAD, '"Thank you, {B}!" [said|cried] {A}. "[You are a true friend|I could not have found it alone|You are the best helper in the world]!"')
    s.p("[Then they played with the {o} together until evening.|{A} let {B} play with the {o}, too.|They took turns with the {o} all afternoon.|{B} smiled. \"That is what friends are for,\" {B.he} said.] " + FRIENDS)
    s.close("it is good to ask for help", "two can find more than one", "a friend in need is a friend indeed", "one should take good care of the things one loves", "you should never give up too soon")


def sharing(s):
    s.hero(); s.friend(); s.place()
    food = s.chance(.55)
    s.open()
    if food:
        s.set("f", "[berries|cherries|cookies|nuts|apples|little cakes|plums|strawberries|buns]")
        s.p("{oneday}, {A} [found|got|carried home|picked] a whole basket of {f}. [They looked so good!|They were sweet and fresh.|{A.he} had never seen so many {f}.] {A} sat down {p.spot2} and began to eat.")
        s.p(s.pick(MEET), '"[Those {f} look so good|What lovely {f}|Oh, {f}]!" said {B}. "[May I have one?|Can I have some, please?|Will you share them with me?]"',
            '"No," said {A}. "[They are all mine|I found them, so they are mine|I want to eat them all by myself]." {B} [looked at the ground|said nothing|looked very sad] and [walked away|went away|left].')
        s.p("{A} ate and ate. But [soon {A.his} belly began to hurt|the {f} did not taste so sweet anymore|somehow {A.he} was not happy]. [\"It is no fun to eat alone,\" {A.he} thought.|{A.he} thought of {B}'s sad face.|{A.he} felt lonely.]",
            "[There were still many {f} in the basket.|The basket was still half full.]")
        s.p("So {A} [took the basket|picked up the basket] and went to look for {B}. {B} was sitting {p.spot1}[, all alone|]. \"I am sorry,\" said {A}. \"[I was not nice to you|I should have shared with you|That was not kind of me]. [Please, have some {f}|Take as many as you like]!\"",
            "{B} [smiled|looked up and smiled|was surprised]. \"Thank you, {A}!\"", "They sat side by side and ate the {f} together. [And how good they tasted now!|Now they tasted twice as good.|They laughed and talked until the basket was empty.]")
    else:
        s.toy()
        s.p("{oneday}, {giver} gave {A} {o.a}. [It was the most beautiful {o} {A} had ever seen.|{A} was very proud of it.|How it shone!] {A} [took it {p.to}|went {p.to} at once] and {o.did}.")
        s.p(s.pick(MEET), '"[What a lovely {o}|That is a wonderful {o}|I like your {o}]!" said {B}. "[May I have it for a little while?|Can I play with it, too?|Can we play together?]"',
            '"No," said {A}. "[It is mine|You might break it|It is my {o}, and nobody else may touch it]." {B} [looked at the ground|looked very sad|said nothing] and went away.')
        s.p("{A} [played alone|went on playing alone]. But [soon it was no fun anymore|after a while, {A.he} was bored|there was nobody to laugh with]. [\"{o.doing} is no fun alone,\" {A.he} thought.|{A.he} thought of {B}'s sad face.|The {o} was lovely, but it could not talk.]")
        s.p("So {A} [went to find|ran after] {B}. {B} was sitting {p.spot1}[, all alone|]. \"I am sorry,\" said {A}. \"[I was not nice to you|I should have shared with you|I did not want to make you sad]. [Come, let us play together|Here, you can have a turn]!\"",
            "{B}'s [eyes lit up|face lit up]. \"[Really? Thank you|Oh, thank you|That is very nice of you]!\" [First {B} had a turn, and then {A}.|They took turns, and it was twice as much fun.|They played and laughed until the sun went down.]")
    s.p(FRIENDS)
    s.close("sharing makes everything better", "joy grows when it is shared", "a friend is better than " + ("a full basket" if food else "any toy"), "it is more fun to share", "nobody is happy alone")


TRAPS = [("in a net", "cut the strings of the net", "untied the knots, one after the other"), ("in a thorn bush", "pushed the branches apart", "held the thorns back with a stick"),
         ("in the deep mud", "held out a long branch", "pulled with all {A.his} strength"), ("under a fallen branch", "lifted the branch", "pushed the branch to the side"),
         ("in a deep hole", "let down a long rope", "put a long branch into the hole"), ("between two stones", "rolled one of the stones away", "pushed the smaller stone aside")]


def rescue(s):
    s.hero(); s.animal("B"); s.place()
    trap, how1, how2 = s.pick(TRAPS)
    s.env["trap"] = trap; s.set("how", s.pick([how1, how2]))
    s.open()
    s.p("{oneday}, {A} [was walking|{A.moved}] {p.to}. [{p.view}.|] [Suddenly|All at once], {A.he} heard a [small|weak|thin] voice. \"Help! [Please help me|Can anybody hear me|Help me]!\"",
        "{A} looked {p.spot1}. [There was {B.intro}, stuck|There {A.he} saw {B.intro}. {B.he} was stuck] {trap}.")
    s.p('"[Please don\'t be afraid|Hold still|Don\'t worry]," said {A}. "I will [help you|get you out]."', "{A} {how}. [It was hard work, but {A.he} did not stop.|It took a long time.|It was not easy, but at last it worked.] [Then {B} was free|At last, {B} was free]!",
        '"[Thank you, kind friend|You saved me|Thank you with all my heart]!" said {B}. "[One day I will help you, too|I will never forget this|If you ever need me, just call my name]." {A} smiled. "[That is kind of you.|I was glad to help.|Take good care of yourself, {B}.|You would have done the same for me.]" And {A.he} went on {A.his} way.')
    kind = s.pick("fog river hole thief thirst".split())
    later = "[Some days later|A week later|Not long after that|The next week], "
    if kind == "fog":
        s.p(later + "{A} was on the way home when a thick fog came up. [{A.he} could not see the path|{A.he} could not see {A.his} own feet]. \"[Where is my home?|Which way should I go?]\" {A.he} called. [{A.he} was lost.|{A.he} was cold and afraid.]",
            "Then a voice said, \"[I know this voice! You must be {A}!|Is that you, {A}?|{A}! Don't be afraid.] It is me, {B}! [I know every path here.|I know the way even in the fog.] Follow me.\" [{B} went ahead, and {A} followed {B.his} voice.|{B} took {A} by the {A.hand}.] Step by step, they came out of the fog, and there was {A}'s home.")
    elif kind == "river":
        s.p(later + "{A} was crossing the river on a narrow log. [The log was wet|{A.he} slipped on the wet wood], and [splash|plop], {A.he} fell into the cold water! \"Help!\" cried {A}.",
            "{B} heard the cry. {B.he} [came running at once|came as fast as {B.he} could] and held out a long stick. \"Hold on tight!\" [called|shouted] {B}. {A} held on, and {B} pulled {A.him} [to the bank|out of the water].")
    elif kind == "hole":
        s.p(later + "{A} fell into a deep hole in the ground. [The walls were too high to climb.|{A.he} jumped and jumped, but the walls were too high.] \"Help!\" {A.he} called. [Nobody answered for a long time.|It was getting dark.]",
            "Then {B} looked down over the edge. \"{A}! [Now it is my turn to help|Wait, I will get you out]!\" {B} [brought a long vine|found a strong branch|dropped a rope down], and {A} climbed up, up, up, until {A.he} was out.")
    elif kind == "thief":
        s.p(later + "a sly weasel took {A}'s basket with all {A.his} food and ran. \"Stop!\" cried {A}, but the weasel was too fast.",
            "{B} saw it all. {B.he} hid beside the path and [stretched a string across it|rolled a round stone in the way]. Bump! The weasel fell, dropped the basket, and ran off [without looking back|into the bushes]. \"Here is your food, {A},\" said {B} [proudly|with a grin].")
    else:
        s.p(later + "it was so hot that the stream dried up. {A} was very thirsty. {A.he} looked for water everywhere, but [found none|there was not one drop].",
            "Then {B} came by. \"[Come with me|Follow me], {A},\" {B.he} said. \"I know a secret spring [under the rocks|behind the hill].\" The water was cold and clear, and {A} drank and drank.")
    s.p('"[You saved me|You helped me|Thank you], {B}!" said {A}.', '"[You helped me first|You once helped me, too|I promised, didn\'t I]," said {B}' + '[ with a smile|]. ' + FRIENDS)
    s.close("kindness always comes back", "even a small friend can be a big help", "one good deed leads to another", "a kind heart is never forgotten", "no one is too small to help")


BREAKABLE = [("vase", "a blue vase with white flowers on it"), ("cup", "a fine white cup"), ("lamp", "an old green lamp"), ("plate", "a painted plate"),
             ("window", "the big kitchen window"), ("clock", "the old clock"), ("jar", "a tall jar of honey"), ("bowl", "a yellow bowl"), ("mirror", "a round mirror")]


def honesty(s):
    s.hero(); s.parent()
    thing, long = s.pick(BREAKABLE)
    s.env["b"], s.env["b.long"] = thing, long
    s.open()
    s.p("[At home, {M} had|{M} owned|In {A}'s home, there was] {b.long}. [{M} loved it very much.|It was very old.|\"Please be careful with it,\" {M} always said.]" if thing not in ("window",) else
        "At home, {M} had just cleaned {b.long}. \"Please don't play ball near the house,\" {M.he} said.",
        "{oneday}, {A} was playing [inside|near the house] with a ball. [{A.he} threw it a little too high.|{A.he} kicked it a little too hard.|The ball flew this way and that way.] [Crash|Bang|Crack]! The ball hit the {b}, and it broke[ into many pieces|].")
    s.p("{A} [stood very still|went pale|held {A.his} breath]. [\"Oh no, what have I done?\" {A.he} whispered.|\"{M.voc} will be so angry,\" {A.he} thought.|{A.his} heart was beating fast.]",
        "[{A.he} [hid behind the door|hid under the bed|ran outside and hid].|{A.he} quickly hid the pieces[ under the bed| behind a box|].|{A.he} did not know what to do, so {A.he} hid.]")
    lied = s.chance(.6)
    if lied:
        s.p("When {M} came in, {M.he} saw the broken {b}. \"[Who did this?|What happened here?]\" {M.he} asked. \"[It was the wind|It was the neighbor's cat|I don't know],\" said {A}[ in a small voice| and looked at the floor|].",
            "But [the lie felt like a stone in {A.his} belly|{A} felt very bad|the words tasted bitter]. [{A.he} could not eat.|{A.he} could not play.|At night, {A.he} could not sleep.] [The lie grew heavier and heavier.|{A.he} thought about it again and again.]")
        s.p("[In the end|The next morning|At last], {A} [went to|could not bear it anymore and went to] {M}. \"{M.voc},\" {A.he} said, \"I did not tell the truth. [I broke the {b}|It was me. I broke the {b}]. I am [so|very|really] sorry.\"")
    else:
        s.p("{A} [waited|sat there] for a long time. [{A.he} thought and thought.|{A.he} could run away, or {A.he} could tell the truth.] Then {A.he} [took a deep breath|stood up] and [went to|looked for] {M}. \"{M.voc},\" {A.he} said, \"I [have to tell you something. I |]broke the {b}. I am [so|very|really] sorry.\"")
    s.p("{M} [was quiet for a moment|looked at {A} for a long time]. Then {M.he} [took {A} in {M.his} arms|hugged {A}|sat down next to {A}]. \"[A {b} can be replaced|It was only a {b}|I am sad about the {b}],\" {M.he} said, ~\"but [I am proud that you told me the truth|it was brave of you to tell the truth|the truth is worth much more].\"",
        "[Together they picked up the pieces and glued them.|Together they swept the floor.|{A} helped to clean up, and then they both had [some|a bite of] {A.food}.|{A} promised to play outside from now on.] [{A} felt as light as a feather.|{A} felt much better.|Now {A} could smile again.]")
    s.close("the truth makes the heart light", "it is always better to tell the truth", "being honest takes courage", "a mistake is not so bad when you are honest")


def new_friend(s):
    s.hero(); s.friend(); s.place()
    s.open("[But {A} was lonely.|But {A.he} had no one to play with.|But {A} had just moved there and had no friends yet.|There was only one thing missing. {A} had no friend.]")
    s.p("{oneday}, {A} went {p.to}. [{p.view}.|] There {A.he} saw {B.intro}. {B} was [sitting {p.spot1}|playing {p.spot2}|humming a little tune|building something out of sticks]. [{A} wanted to say hello, but {A.he} was too shy.|\"Should I talk to {B.him}?\" {A} thought. \"What if {B.he} laughs at me?\"|{A} hid and only watched.]")
    how = s.pick("ball rain help hobby fall".split())
    if how == "ball":
        s.p("Then a [red|yellow|blue] ball rolled [right up to|in front of] {A}'s feet. {A} picked it up. \"[Is this yours?|Is this your ball?]\" {A.he} asked[ softly| shyly|]. \"Yes,\" said {B}. \"[Do you want to play with me|Shall we play together]?\"")
    elif how == "rain":
        s.p("Suddenly, it began to rain. {B} had no umbrella, but {A} had [a big one|one]. {A} took all {A.his} courage and went over. \"[You can stand under my umbrella|Come under my umbrella|There is room for two],\" {A.he} said. {B} [smiled|came closer]. \"Thank you! I am {B}.\"")
    elif how == "help":
        s.p("Then {A} saw that {B} was [trying to lift a heavy basket|trying to pull a little cart up the path]. It was too heavy for one. {A} forgot to be shy. \"Wait, I will help you!\" {A.he} called. Together it was easy. \"Thank you,\" said {B}. \"What is your name?\" \"I am {A},\" said {A}.")
    elif how == "fall":
        s.p("Then {B} tripped over a root and fell down. \"Ouch!\" cried {B}. {A} ran to {B.him} at once. \"Are you hurt?\" {A.he} asked[, and helped {B.him} up|]. \"It is only a scratch,\" said {B}. \"You are very kind. [Will you stay with me for a while|Do you want to play]?\"")
    else:
        s.p("But then {A} heard that {B} was talking to {B.self}. \"I wish I had someone who likes {h.doing},\" said {B}. {A}'s heart jumped. \"I like {h.doing}, too!\" {A.he} [said|called]. {B} turned around and [smiled|laughed]. \"Really? Then let us do it together!\"")
    s.p("[{A} nodded.|{A}'s face lit up.|{A} was so happy.] [They talked and laughed all afternoon.|They found out that they both liked {h.doing}.|They ran around until they were out of breath.|First they played tag, and then they told each other stories.]",
        "[\"Will you come back tomorrow?\" asked {B}. \"Of course,\" said {A}.|When the sun went down, {B} said, \"See you tomorrow, {A}!\"|\"I was afraid you would not like me,\" said {A}. {B} laughed. \"And I was afraid you would not like me!\"]", FRIENDS)
    s.close("saying hello can be the start of something wonderful", "a little courage can bring a new friend", "others are often shy, too", "friends can be found everywhere", "a kind word opens every door")


def quarrel(s):
    s.hero(); s.friend(); s.place()
    s.open("{A.his} best friend was {B.intro}. [They did everything together.|They met every day.|Nobody had ever seen one without the other.]")
    cause = s.pick("toy game build blame".split())
    if cause == "toy":
        s.toy()
        s.p("{oneday}, the two friends found {o.a} {p.spot1}. \"[I saw it first|It is mine]!\" said {A}. \"No, [I saw it first|it is mine]!\" said {B}. [They pulled and pulled.|{A} pulled on one side, and {B} pulled on the other.|They shouted louder and louder.]",
            "\"[You are not my friend anymore|I never want to play with you again]!\" [shouted|cried] {A}. \"[Good|Fine]!\" [shouted|said] {B}, and they both went home[ without the {o}|].")
    elif cause == "game":
        s.p("{oneday}, the two friends were playing {p.at}. \"[Let us play hide and seek|I want to play tag],\" said {A}. \"No, [I want to play something else|that is boring. Let us climb trees],\" said {B}. \"[You always decide|You never do what I want]!\" cried {A}. \"[No, you always decide|That is not true]!\" cried {B}.",
            "They [turned their backs to each other|were both very angry] and went home.")
    elif cause == "build":
        s.p("{oneday}, {A} and {B} were building a [tower|little house|bridge] out of sticks {p.spot1}. {B} [turned around|took one step back], and [oops|crash], everything fell down. \"[You broke it|You did that on purpose]!\" shouted {A}. \"[I did not|It was an accident]!\" said {B}. [But {A} did not listen.|\"Go away!\" said {A}.]",
            "{B} went home[ with tears in {B.his} eyes| very sad|]. {A} stayed alone {p.at}.")
    else:
        s.p("{oneday}, {A} could not find {A.his} {A.food}. \"You ate it!\" {A.he} said to {B}. \"[No, I did not|That is not true]!\" said {B}. [But {A} did not believe {B.him}.|\"I don't believe you,\" said {A}.] {B} [was very hurt|was sad and angry] and went home. Later that day, {A} [found everything in {A.his} own bag|saw that {A.he} had only forgotten where it was].")
    s.p("[The next day, {A} had nobody to play with.|That evening, {A} could not sleep.|The days were long and quiet.] [{A.he} tried {h.doing}, but alone it was no fun.|{A.he} remembered all the good days with {B}.|Everything was boring without {B}.] \"I [miss|really miss] {B},\" {A.he} [thought|said softly].")
    if s.chance(.5):
        s.elder()
        s.p("[Then|One day], {C.intro} saw {A} sitting there. \"[A friend is worth more than being right|Sorry is a small word, but it can mend big things|If you wait for the other to come first, you may both wait forever],\" said {C}. {A} thought about that[ for a long time|].")
    s.p("[So|In the end], {A} [went to {B}'s home|set out to see {B}]. [On the way, {A.he} met {B}, who was coming to see {A.him}!|{B} opened the door with red eyes.] \"I am sorry,\" [said {A}|they both said at the same time]. [\"I am sorry, too,\" said {B}.|Then they had to laugh.|\"I missed you,\" said {B}.]",
        "They [hugged each other|hugged for a long time]. [From then on, they took turns.|\"Let us never fight again,\" said {A}. \"And if we do,\" said {B}, \"let us make up quickly.\"|The sun came out, and they went {p.to} together.|And then they {h.did} until evening.]")
    s.close("a friend is worth more than being right", "saying sorry can mend a friendship", "even good friends fight sometimes", "it is good to listen to each other")


def sick_friend(s):
    s.hero(); s.friend()
    s.open("{A.his} best friend was {B.intro}.")
    s.p("{oneday}, {A} waited for {B}, but {B} did not come. [{A} waited and waited.|\"That is strange,\" thought {A}.] So {A.he} [went to {B}'s home|{A.moved} to {B}'s home] and knocked at the door. \"Come in,\" said a weak voice. {B} was lying in bed[ under three blankets| with a red nose|]. \"[I am sick|I have a bad cold],\" said {B}. \"I cannot come out to play.\"",
        "{A} wanted to help. \"[What can I do?|How can I make {B} feel better?]\" {A.he} thought.")
    s.set("soup", "[vegetable soup|carrot soup|mushroom soup|hot soup|pumpkin soup]")
    tried = s.chance(.6)
    if tried:
        s.p("[First, {A} told a joke, but {B} was too tired to laugh.|First, {A} wanted to sing for {B}, but {B}'s head hurt.|First, {A} brought a ball, but {B} was too weak to play.] Then {A} had [an idea|a better idea].")
    s.p("{A} went home and cooked {soup}. [{A.he} washed the vegetables, cut them, and put them into a big pot.|{A.he} stirred and stirred until it smelled good.|{A.his} family helped {A.him}.] [Then {A.he} carried the pot to {B}, slowly, slowly, so that nothing was spilled.|Then {A.he} brought a bowl of it to {B}.]",
        "{B} [ate one spoon, and then another|sat up and ate]. \"[That is the best soup in the world|Oh, that feels good|Now I am warm from my nose to my toes],\" said {B}.")
    s.p("[Every day, {A} came back with soup and a new story.|{A} stayed and read a story to {B} until {B.he} fell asleep.|{A} also picked some flowers and put them next to the bed.] After [three|a few|some] days, {B} was well again. [\"You are the best doctor in the world,\" said {B}.|\"Thank you for taking care of me,\" said {B}.] And together they [ran outside to play|{h.did}].")
    s.close("a little care can make a sick friend smile", "friends are there in good days and in bad days", "love is the best medicine", "it feels good to take care of others")
