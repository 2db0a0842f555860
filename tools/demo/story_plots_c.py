"""Plots about journeys, presents, small wonders and help from many."""
from story_plots_a import FRIENDS, GLAD, MEET


def lost_way(s):
    s.hero(); s.parent(); s.place("p", ["forest"])
    s.set("lure", "[a blue butterfly|a little white bird|a golden leaf in the wind|a rainbow|a firefly]")
    s.open()
    s.p("{oneday}, {A} was playing near the forest when {A.he} saw {lure}. [It was so pretty|How it shone], and {A.he} followed it, deeper and deeper into the woods. \"[Wait for me|Come back|Don't go so fast]!\" {A.he} called. But then it was gone, and {A} [looked around|stopped]. [There were trees everywhere.|All the trees looked the same.]",
        "\"Where am I?\" {A.he} said. [It was getting dark.|The path was gone.|The wind was cold.] {A} [called for {M}, but nobody answered|sat down on a log and cried|walked this way and that way, but {A.he} only went in circles].")
    s.elder("C"); guide = s.pick("river star smell stones song".split())
    s.p("[Then|After a while], {C.intro} [came by|heard {A.him}]. \"[Are you lost, little one?|Have you lost your way?|Are you all alone?]\" asked {C}. {A} nodded. \"[Don't be afraid|Dry your tears]. " + {
        "river": "Listen. Can you hear the river? It flows right past your home. Follow the water, and you will be there soon.\" {A} listened, and there it was, a soft murmur. {A.he} thanked {C} and followed the river, [around every bend|over stones and roots].",
        "star": "Do you see the brightest star, right above the hill? Walk toward it and do not turn left or right.\" {A} thanked {C} and looked up. {A.he} walked toward the star, [step by step|over hills and stones].",
        "smell": "Close your eyes. What do you smell?\" {A} sniffed. \"I smell {A.food}!\" {A.he} said. \"That must be {M.voc}!\" {A} thanked {C} and followed the good smell, [step by step|between the trees].",
        "stones": "I will go with you as far as the white stones. From there you only have to go straight on.\" They walked side by side, and {C} told funny stories all the way. At the white stones, {A} thanked {C} and went on alone.",
        "song": "Be very quiet and listen.\" {A} held {A.his} breath. Far away, someone was singing. \"That is {M.voc}'s song!\" said {A}. {A.he} thanked {C} and ran toward the singing.",
    }[guide])
    s.p("[And soon|At last], {A} saw a light between the trees. It was home! {M} stood at the door with a lantern. \"{A}! [There you are|I was so worried|I was looking for you everywhere]!\" {M.he} [cried|called], and took {A.him} in {M.his} arms. \"I am sorry, {M.voc},\" said {A}. \"[I went too far|I forgot to look at the way|I will never run off like that again].\" [{M} gave {A.him} a bowl of warm soup and tucked {A.him} into bed.|They sat by the fire, and {A} told the whole story.]")
    s.close("home is the best place of all", "it is wise to look where you are going", "if you stay calm, you will find a way", "there is always someone who can help")


# thing needed, who has it, what is wanted for it
ERRANDS = [("flour", "the miller", "m", "The mice are eating my corn", "talked with the mice, and the mice promised to eat only what fell on the floor"),
           ("eggs", "the hen", "f", "A board is missing in my hen house, and the wind comes in", "found a board and closed the hole"),
           ("milk", "the cow", "f", "The flies are bothering me", "made a fan out of leaves and chased the flies away"),
           ("butter", "the farmer", "m", "I can't find my glasses", "looked everywhere and found the glasses on the farmer's own head"),
           ("strawberries", "the gardener", "f", "The weeds are growing over my beds", "pulled out the weeds, row by row"),
           ("sugar", "the shopkeeper", "m", "My shelves are so dusty", "wiped all the shelves until they shone"),
           ("cherries", "the blackbird", "m", "My nest has come loose", "tied the nest to the branch with a string"),
           ("apples", "the old woman on the hill", "f", "My bucket is too heavy for me", "carried the bucket from the well to her door"),
           ("nuts", "the squirrel", "m", "I forgot where I hid my treasure", "dug under every tree until the treasure was found")]


def cake(s):
    s.hero(); s.friend()
    one, two = s.rng.sample(ERRANDS, 2)
    for key, e in (("D", one), ("E", two)):
        thing, who, gender, _, help_ = e
        s.env[key] = who
        s.env[key + ".he"] = "he" if gender == "m" else "she"
        s.env[key + ".thing"], s.env[key + ".need"], s.env[key + ".help"] = e[0], e[3], help_
    s.open("{A.his} best friend was {B.intro}.")
    many = lambda e: "were no" if e[0].endswith("s") else "was no"
    s.env["was1"], s.env["was2"] = many(one), many(two)
    s.p("{oneday}, {A} remembered that it was {B}'s birthday [the next day|soon]. \"I will bake a cake for {B},\" {A.he} said. {A.he} looked into the kitchen, but there {was1} {D.thing}, and there {was2} {E.thing}, either.",
        "[So {A} took a basket and set out.|\"Then I must go and find some,\" said {A}.]")
    s.p("First, {A} went to {D}. \"May I have some {D.thing}?\" {A.he} asked. \"[I would like to give you some|Gladly],\" said {D}, ~\"but first I need your help. {D.need}.\" So {A} {D.help}. \"[Thank you, {A}|Well done]!\" said {D}, and gave {A.him} {D.thing}.")
    s.p("[Then|Next], {A} went to {E}. \"May I have some {E.thing}?\" {A.he} asked. [{E} sighed.|{E} looked worried.] \"[I can't think of that now|I would, but I have a problem],\" {E.he} said. \"{E.need}.\" [\"I can help you,\" said {A}.|{A} rolled up {A.his} sleeves.|{A} wanted to help.] {A.he} {E.help}. {E} was so happy that {E.he} filled {A}'s basket with {E.thing}.")
    s.p("At home, {A} mixed everything in a big bowl, stirred, and put the cake into the oven. [Soon the whole house smelled of cake.|It smelled wonderful.] When the day came, {A} carried the cake to {B}. \"Happy birthday, {B}!\" {A.he} [called|sang].",
        "{B}'s eyes grew wide. \"[Is that for me?|For me?] [It is the most beautiful cake in the world|Nobody ever baked a cake for me]!\" {B.he} said. They invited {D} and {E}, too, and everyone had a big piece. [They sang and danced until it was dark.|There was not one crumb left.]")
    s.close("a present made with love is the best present", "those who help others find help", "it is fun to make others happy", "a good cake needs many helpers")


BABIES = [("duckling", "duck", "yellow feathers"), ("kitten", "cat", "soft gray fur"), ("lamb", "sheep", "curly white wool"), ("puppy", "dog", "long brown ears"),
          ("chick", "hen", "yellow fluff"), ("calf", "cow", "big brown eyes"), ("foal", "horse", "long thin legs"), ("bear cub", "bear", "round brown ears"),
          ("owlet", "owl", "big round eyes"), ("fawn", "deer", "white spots on its back"), ("piglet", "pig", "a curly pink tail"), ("gosling", "goose", "gray fluff")]


def lost_baby(s):
    s.hero(); s.place(); baby, mother, look = s.pick(BABIES)
    s.env.update(b=baby, m=mother, look=look)
    big = s.human and baby not in ("calf", "foal")
    s.set("take", "{A.he} took the {b} in {A.his} arms." if big else "{A.he} stayed close to the {b}.")
    s.env["rest"] = "carried it" if big else "let it rest for a while"
    s.env["D"], s.env["E"] = s.rng.sample([a for a in ("the frog", "the cow", "the woodpecker", "the rabbit", "the old horse", "the cat", "the goat", "the beaver", "the hedgehog") if mother not in a], 2)
    s.open()
    s.p("{oneday}, {A} was walking {p.to} when {A.he} heard a sad little sound. {A.he} looked {p.spot1} and found a {b} with {look}. It was all alone[ and shivering|]. \"[Where is your mother?|Are you lost?]\" asked {A}. \"[I don't know|I can't find my mother],\" said the {b}. \"[I ran after a leaf, and then she was gone|I fell asleep, and when I woke up, she was gone].\"",
        "\"[Don't cry|Don't worry|Come with me],\" said {A}. \"We will find her.\" [{take}|The {b} followed close behind {A.him}.]")
    s.p("First, they asked {D}. \"Have you seen this {b}'s mother?\" \"No,\" said {D}, ~\"[but ask {E}|but perhaps {E} has seen her|but I will keep my eyes open].\"",
        "Then they asked {E}. \"[I have seen a {m} near the mill|There was a {m} calling for her little one|I heard a {m} calling on the other side of the hill],\" said {E}. \"[Go quickly|Go that way].\" [It was a long way.|They went on and on.] The {b} was tired, so {A} [{rest}|sang it a little song|told it a story].")
    s.p("At last, they heard a voice. \"My baby! Where are you?\" It was a big {m} with kind eyes. \"Mama!\" cried the {b} and ran to her. [The mother closed her eyes with joy.|The {m} held her little one close.] \"Thank you, {A},\" she said. \"[You have a good heart|I was so afraid|I will never forget what you did].\" [The {b} gave {A} a wet kiss on the nose.|{A} was glad, and a little sad, too.|\"Will you visit us?\" asked the {b}. \"Of course,\" said {A}.]",
        "Then {A} [hurried home|went home], for {A.his} own mother was waiting for {A.him}.")
    s.close("it is good to help someone small", "nothing is as strong as a mother's love", "a kind heart never passes by", "there is always a way home")


NOISES = [("a strange scratching at the door", "a hungry stray cat with wet fur", "gave it a bowl of milk and a warm place by the stove", "Before long, the cat was purring in {A}'s lap"),
          ("a tapping at the window", "a branch of the apple tree that moved in the wind", "laughed and tied the branch back with a string", "\"Good night, apple tree,\" said {A}"),
          ("a low moaning from the attic", "the wind, which blew through an old bottle", "blew into the bottle, too, and made the same sound", "Now the attic had its own music"),
          ("a rustling in the kitchen", "a family of mice having a party with bread crumbs", "gave them a piece of cheese and wished them a good night", "The smallest mouse bowed and waved its tail"),
          ("a knocking under the floor", "a lost hedgehog who was looking for the way out", "opened the little cellar door and let it go", "The hedgehog turned around once more, as if to say thank you"),
          ("a soft humming in the garden", "a hundred fireflies and crickets having a concert", "sat down in the grass and listened until the end", "It was the loveliest music {A} had ever heard"),
          ("a loud grumbling behind the wall", "only {A.his} uncle, who was sleeping in the next room and snoring", "laughed so hard that {A.his} uncle woke up", "Then they all drank warm milk in the kitchen")]


def noise(s):
    s.hero(); s.friend()
    sound, what, did, after = s.pick(NOISES)
    s.env["n"] = sound; s.set("what", what); s.set("did", did); s.set("after", after)
    s.open()
    s.p("{A}'s friend, {B.intro}, was staying for the night. [They had told stories until late.|They were already in bed.|The moon was shining through the window.] Suddenly, they heard {n}. \"What was that?\" whispered {B}. [\"Maybe it is a ghost,\" said {A}.|\"Maybe it is a monster,\" said {A}.|They pulled the blanket up to their noses.]",
        "There it was again! [{B} held {A}'s {A.hand}.|Their hearts were beating like drums.] \"[We can't sleep like this|I want to know what it is],\" said {A}. \"[Let us go and look|Come with me]. We will go together.\"")
    s.p("They [took a lantern|lit a candle] and [went on tiptoe|crept along quietly], one step after the other. [The floor creaked.|Their shadows danced on the wall.|{B} stayed close behind {A}.] The sound grew louder and louder. {A} counted to three and [held up the light|looked]. And what did they see? It was {what}!",
        "[\"So that is our monster!\" said {A}.|They looked at each other and began to laugh.|\"And we were so afraid!\" said {B}.] They {did}. {after}. Then they went back to bed and slept [until the sun came up|like two stones].")
    s.close("many monsters are very small when you look at them", "it is better to look than to be afraid", "together, one is braver than alone", "not everything strange is bad")


MAGIC = [("feather", "whoever holds it can fly"), ("stone", "it makes wishes come true, but only three times"), ("bell", "when it rings, everyone who hears it begins to dance"),
         ("pencil", "everything it draws becomes real"), ("hat", "whoever wears it can talk with every creature"), ("spoon", "it fills every bowl with soup"),
         ("flute", "its song makes flowers bloom"), ("key", "it opens every door")]


def magic(s):
    s.hero(); s.place(); thing, power = s.pick(MAGIC); s.elder("C")
    s.env.update(m=thing, power=power)
    s.open()
    s.p("{oneday}, {A} found an old {m} {p.spot1}. [It glowed a little.|It felt warm in {A.his} {A.hand}.|It glittered in the sun.] \"[That is a magic {m}|Be careful with that {m}],\" said a voice. It was {C.intro}. \"It has a secret: {power}. [Use it well|But use it wisely|Think before you use it].\"")
    plots = {
        "feather": ("{A} held the {m} tightly and jumped, and up {A.he} went, higher than the trees! [{A.he} flew over the roofs.|{A.he} flew in circles around the church tower.] {A.he} waved to everyone below.", "Then {A} saw a small bird that sat on the ground. It had a broken wing and could not fly south with the others. \"You need the {m} more than I do,\" said {A}, and {A.he} gave it to the bird. The bird rose into the sky and sang for joy."),
        "stone": ("First, {A} wished for a mountain of {A.food}. There it was! {A} ate until {A.his} belly hurt. Then {A.he} wished that the mountain would go away again, and it did. Now only one wish was left.", "{A} thought for a long time. Next door lived an old woman who could not walk anymore. \"I wish that her legs were strong again,\" said {A}. The next morning, the old woman danced in her garden, and {A} was happier than with any mountain of {A.food}."),
        "bell": ("{A} rang the bell in the village. [The baker danced with the bread, and the hens danced in the yard.|The mayor danced, and even the cows danced.] {A} laughed and laughed. But soon everyone was tired. \"Stop, stop!\" they called, and {A} was sorry.", "The next day, there was a big fight at the market. Everyone was shouting. {A} rang the bell very softly, and all the angry people began to dance. Soon they were laughing, and they forgot why they had been angry. After that, {A} rang the bell only when it was needed."),
        "pencil": ("{A} drew a {A.kind}'s dream: cakes, toys, and a house full of candy. Everything became real! But soon there was no room to move, and {A} had nobody to play with.", "So {A} drew something else. {A.he} drew a bridge over the river, so that the {friendkind} on the other side could come over. They came, and they shared the cakes and played with the toys. The pencil was very short by then, but {A} did not mind."),
        "hat": ("{A} put on the hat and heard a hundred little voices. The ants were counting, the bees were telling jokes, and the old tree was snoring. [{A} listened all day.|{A} had never had so much fun.]", "Then {A} heard a tiny cry for help. A beetle was lying on its back and could not get up. Nobody else had heard it. {A} turned the beetle over gently. \"Thank you,\" said the beetle. \"Nobody ever hears the small ones.\" From then on, {A} listened to the small ones, even without the hat."),
        "spoon": ("{A} stirred in an empty bowl, and there was hot soup! {A.he} filled every bowl in the house, and then the bathtub, and then there was soup everywhere. \"Stop!\" cried {A}, and the spoon stopped.", "What could {A.he} do with so much soup? {A} remembered that many people in the village were hungry that winter. {A.he} carried the soup from door to door, and everyone ate and was warm. In the end, there was just one bowl left, and that was for {A}."),
        "flute": ("{A} played a little song, and a flower came up between the stones. {A.he} played again, and the whole path was full of flowers. {A} played until {A.his} own garden was the most beautiful of all.", "But behind the hill, there was a gray street where nothing grew. The {friendkind} there had never seen a flower. {A} went there and played {A.his} best song. Red, yellow, and blue flowers came out of every crack, and all the windows opened. {A} had never seen so many smiles."),
        "key": ("{A} opened the old gate, and then the tower, and then the baker's cupboard. It was fun, but it did not feel right. \"These doors are not mine,\" thought {A}, and {A.he} closed them all again.", "Then {A} saw a little bird in a cage. It looked at the sky and did not sing. {A} opened the small door with the {m}. The bird hopped out, looked at {A}, and flew up into the blue sky. There it began to sing. \"That was the right door,\" said {A}."),
    }
    s.p(plots[thing][0]); s.p(plots[thing][1])
    s.p("[In the evening, {C} came by again. \"You have used it well,\" said {C} with a smile.|\"You understood the secret,\" said {C}.|And {C}, who had seen everything, smiled.]")
    s.close("real magic is in a kind heart", "it is better to give than to have", "one must use one's gifts wisely", "the best wish is a wish for someone else")


def moon(s):
    s.hero(); s.friend()
    s.open("{A} [loved the moon|looked at the moon every night]. \"[How I would like to touch it|I want to hold it, just once|It looks so lonely up there],\" {A.he} said.")
    s.p("{oneday}, {A} [made a plan|had an idea]. [\"If I climb high enough, I can reach it,\" {A.he} thought.|\"I will build a ladder up to the moon,\" {A.he} said.] That night, {A} climbed [the highest tree|the roof|the highest hill] and stretched out {A.his} {A.hands}. But the moon was still far away. [{A} jumped, but it did not help.|{A} stood on {A.his} toes, but it did not help.]",
        "Then {A} [took a long stick|took a net|put one box on another]. But [the moon only smiled|it was still too far]. {A} [came down again|sat down and sighed]. \"[I will never reach it|The moon does not want me],\" {A.he} said.")
    s.p("{B.intro} [was out late, too|had heard {A.him}]. \"[Come with me|I know a place where you can touch the moon],\" said {B}. {B.he} led {A} to the pond. The water was [as smooth as glass|dark and still], and in the middle lay the moon, round and white. \"[Look|There it is],\" said {B}. {A} put {A.his} {A.hand} into the water. The moon [trembled and broke into a hundred silver pieces|laughed in little waves]. Then the water was still again, and the moon was whole.",
        "\"I have touched the moon!\" [whispered|cried] {A}. [They sat side by side and looked at the two moons, one above and one below.|They stayed there until they were very sleepy.] \"[It is not lonely anymore|Good night, moon],\" said {A}. " + FRIENDS)
    s.close("sometimes what we want is closer than we think", "some beautiful things cannot be held, only looked at", "a friend can show you a new way", "there is more than one way to reach a dream")


HANDMADE = [("a picture of the two of them", "drew it with all {A.his} colors"), ("a necklace of acorns", "put one acorn after another on a string"), ("a little boat of bark", "cut it and gave it a leaf for a sail"),
            ("a song", "found one word after the other, until it rhymed"), ("a crown of flowers", "wove daisies and clover together"), ("a lamp of paper", "cut little stars into the paper"),
            ("a book of stories", "wrote down all the stories {A.he} knew"), ("a pair of warm socks", "knitted for seven evenings"), ("a wind chime of shells", "tied the shells to a piece of driftwood")]


def gift(s):
    s.hero(); s.parent()
    thing, how = s.pick(HANDMADE)
    s.env["g"] = thing; s.set("how", how)
    s.open()
    s.p("{oneday}, {A} heard that it would soon be {M}'s birthday. [{A} wanted to give {M.him} something special.|\"What can I give {M.him}?\" {A.he} thought.] {A} went to the market. There were [silver spoons and silk scarves|golden rings and fine hats|painted cups and shiny clocks], but {A} had only [one coin|two small coins]. \"That is not enough,\" said the man at the stand.",
        "{A} went home [with empty hands|sadly]. [\"I have nothing to give,\" {A.he} thought.|{A.he} sat down under a tree and thought.] Then {A} [had an idea|smiled]. \"I cannot buy a present, but I can make one!\" [{A} worked in secret.|{A} told nobody.] {A} wanted to make {g}. {A.he} {how}. [It took a long time.|It was not perfect, but it was lovely.|Once it went wrong, and {A} had to start again.]")
    s.p("Then the birthday came. Others brought [fine things in golden paper|big boxes with bows]. {A}'s present looked very small. [{A} was almost ashamed of it.|{A}'s heart was beating fast.] \"Happy birthday, {M.voc},\" {A.he} said softly.",
        "{M} opened it and was [very quiet|silent for a moment]. [Then {M.he} had tears in {M.his} eyes.|Then a big smile came over {M.his} face.] \"You made this [for me|yourself]?\" {M.he} asked. {A} nodded. \"It is the most beautiful present of all,\" said {M}, and hugged {A} [for a long, long time|tightly]. " + GLAD)
    s.close("the best presents come from the heart", "love cannot be bought", "a small present can bring great joy", "what you make with love is worth more than gold")


def heavy(s):
    s.hero(); s.friend("B"); s.friend("C"); s.friend("D")
    what, place, verb, end = s.pick([
        ("a giant turnip", "in the garden", "pulled", "They cooked a big pot of soup, and everyone ate until they were full"),
        ("a huge pumpkin", "in the field", "pushed", "They made pumpkin pie for the whole village"),
        ("a big wagon", "in the mud", "pushed", "Then they all took a ride on the wagon and sang"),
        ("a fallen tree", "across the path", "pushed", "Now the path was free again, and the log became a bench for everyone"),
        ("a boat", "on the sand", "pulled", "Then they all sailed around the bay together"),
        ("a big stone", "in front of the spring", "pushed", "Clear water came out, and everyone had something to drink")])
    s.env.update(w=what, w_at=place, did=verb, end=end)
    s.env["the"] = "the " + what.split(" ", 1)[1]
    s.open()
    s.p("{oneday}, {A} saw {w} {w_at}. {A} wanted to move it. {A.he} {did} and {did}, but {the} did not move[ one bit| at all|]. \"[It is too heavy for me|I need help],\" said {A}[, and wiped {A.his} face|].",
        "So {A} called {B.intro}. {A} and {B} {did} together, but {the} still did not move. [\"We need more help,\" said {B}.|\"We are not strong enough,\" said {B}.]")
    s.p("Then {C.intro} came. {A}, {B}, and {C} {did} with all their might. {the} [moved a little|shook a little], but [no more|it was not enough]. [They fell down in a heap and had to laugh.|\"Almost!\" said {C}.]",
        "[In the end|At last], {D.intro} came along. \"Can I help?\" asked {D} [in a small voice|shyly]. [\"You? You are so small,\" said {C}.|\"You are very little,\" said {B}.] \"[Everyone can help|Every bit helps|Let {D.him} try],\" said {A}. So all four of them {did}. One, two, three, and {the} moved!")
    s.p("[Hurray!|They cheered and danced.|\"We did it!\" they all shouted.] {end}. [\"Without {D}, we could not have done it,\" said {A}.|And {D} was the proudest of them all.|{D} smiled from ear to ear.]")
    s.close("many hands make light work", "even the smallest can make the difference", "together we are strong", "it is no shame to ask for help")


TALENTS = ["sing like a bird", "jump over a fence", "walk on {X.his} {X.hands}", "tell jokes", "juggle with apples", "dance on one leg", "play the fiddle", "spin around ten times", "do magic tricks with cards"]


def talent(s):
    s.hero(); s.friend("B"); s.friend("C"); s.elder("E")
    for k in "BC":
        s.env["X.his"], s.env["X.hands"] = s.env[k + ".his"], s.env[k + ".hands"]
        s.set(k + ".can", s.fresh(TALENTS))
    s.open()
    s.p("{oneday}, everybody was talking about the big show. [Everyone wanted to show something.|There was even a prize for the best one.] {B.intro} could {B.can}. {C.intro} could {C.can}. Only {A} [did not know what {A.he} could do|was sad]. \"[I can't do anything special|What can I show?|I have no talent],\" {A.he} said.",
        "{A} tried to do what {B} did, but it went wrong. {A.he} tried to do what {C} did, but that was even worse. [The others giggled.|\"Never mind,\" {A.he} thought. \"I will just watch.\"]")
    kind = s.pick("rope cheer fix".split())
    s.p("On the evening of the show, [everybody was excited|the whole place was full of lights]. " + {
        "rope": "But just before it began, {B} was so nervous that {B.he} wanted to run away. {A} sat down beside {B.him}. \"Take a deep breath,\" said {A}. \"Look only at me. I will be in the first row.\" {B} went out, looked at {A}, and everything went well. Then {C} got nervous, too, and {A} helped {C.him} in the same way.",
        "cheer": "But nobody clapped, because everyone was waiting for someone else to begin. {B} stood there and felt very small. Then {A} clapped as loudly as {A.he} could. \"Bravo!\" {A.he} called. One after the other joined in, and soon everyone was clapping and cheering, for {B}, for {C}, and for all the others.",
        "fix": "But just before it began, the curtain fell down and the lights went out. Everyone shouted at the same time. Only {A} stayed calm. {A.he} found a rope and a candle, and told each one what to do. Soon the curtain was up again, and the show could begin. {B} and {C} were wonderful.",
    }[kind])
    s.p("At the end, {E.intro} stood up to give the prize. \"[There were many fine things tonight|I have seen wonderful things],\" said {E}. \"But the prize goes to the one who helped all the others. It goes to {A}!\" {A} could not believe it. \"[But I did nothing special|Me?],\" {A.he} said. \"You [made the others shine|have a good heart],\" said {E}, ~\"and that is the greatest talent of all.\" [{B} and {C} lifted {A} onto their shoulders.|Everyone cheered for {A}.]")
    s.close("everyone is good at something", "helping others is a talent, too", "you do not have to be the loudest to be special", "a good heart is a gift")
