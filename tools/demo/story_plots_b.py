"""Plots about growing: fears, new skills, patience, boasting, warnings, building."""
from story_plots_a import CRY, FRIENDS, GLAD, MEET

# fear, where it shows, the helper's advice, what they do, how it ends
FEARS = [
    ("the dark", "At night, when the lights went out, {A} pulled the blanket over {A.his} head. [Every shadow looked like a monster.|Every little sound made {A.him} jump.]",
     "The dark is only the day with its eyes closed", "[They sat outside together and waited. First they saw one star, then ten, then a thousand.|They went outside, {A.hand} in {B.hand}. Fireflies were dancing in the dark garden.]",
     "\"[It is beautiful|I never knew the dark was so pretty],\" whispered {A}. Without the dark, there would be no stars and no fireflies. [That night, {A} slept without a light.|Now {A} was not afraid anymore.]"),
    ("thunder", "When the sky rumbled, {A} hid under the bed. [{A.he} put {A.his} {A.hands} over {A.his} ears.|{A.he} shook like a leaf.]",
     "Thunder is only a big drum in the clouds. Let us count until it booms", "[Flash! They counted: one, two, three, four, boom. Then they counted again: one, two, three, four, five, six, boom.|Each time it boomed, they boomed back as loud as they could.]",
     "[\"It is going away!\" said {A}.|{A} laughed. \"It sounds like a hungry belly!\" {A.he} said.] Soon the storm was over, and a rainbow stood in the sky. [After that, {A} was not afraid of thunder anymore.|The next time it thundered, {A} only laughed.]"),
    ("high places", "When the others climbed up the big tree, {A} stayed on the ground. [{A.his} knees were shaking.|Even looking up made {A.him} dizzy.]",
     "Don't look down. Look at the next branch, and only at the next branch", "[{A} put one foot on the first branch, then on the second. {B} stayed right behind {A.him}.|They climbed slowly, one branch at a time, and rested after each one.]",
     "[Suddenly there was no more branch. They were at the top!|Then {A} looked up, and {A.he} was at the top!] {A} could see the whole world: the fields, the river, and the little roofs. \"I did it!\" {A.he} called."),
    ("deep water", "When the others jumped into the pond, {A} stayed on the bank. [{A.he} did not even want to wet {A.his} toes.|The water looked so deep and dark.]",
     "We will go in slowly. First the toes, then the knees, and you can hold on to me", "[First the water touched {A}'s toes. Brr! Then it came up to {A.his} knees, and then up to {A.his} belly. {B} did not let go.|{B} showed {A.him} how to float. \"Lie back and look at the clouds,\" {B.he} said.]",
     "[And then {A} floated, as light as a leaf.|And then {A} splashed, and laughed, and splashed again.] \"[The water is carrying me|It is fun], {B.voc}!\" {A.he} called. [They stayed in the pond until the sun went down.|From then on, {A} was the first to jump in.]"),
    ("big dogs", "On the way to the market, there was a house with a big black dog. {A} always made a long way around it. [{A.he} was afraid of its loud bark.|Its teeth looked so long.]",
     "He barks because he is lonely. Hold out your {A.hand} and let him smell it", "[They went to the fence together. {A}'s heart was beating fast. {A.he} held out {A.his} {A.hand}, and the dog came closer.|{B} went first, and {A} came behind, step by step. The dog stopped barking and looked at them.]",
     "[The dog licked {A}'s {A.hand} and wagged its tail.|And then the big dog lay down on its back and wanted to be petted.] \"It tickles!\" laughed {A}. [From then on, {A} said hello to the dog every day.|The big dog was not bad at all. It only wanted a friend.]"),
    ("the big slide", "In the park, there was a very long slide. Everybody loved it, but {A} only stood and watched. [\"It is too fast for me,\" {A.he} thought.|{A.his} legs felt like jelly.]",
     "We can go down together. I will sit behind you and hold you", "[They climbed up the ladder. {A} closed {A.his} eyes. One, two, three, and down they went!|At the top, {A} wanted to turn back, but {B} held {A.his} {A.hand}. And whoosh, off they went!]",
     "{A} opened {A.his} eyes. It was already over! \"[Again, again|Let us do it again]!\" {A.he} shouted. [The next time, {A} went down all alone.|They went down ten more times.]"),
]


def fear(s):
    s.hero(); s.friend()
    name, where, advice, doing, done = s.pick(FEARS)
    s.env["fear"] = name
    s.set("advice", advice)
    s.open("[But there was one thing {A} was afraid of: {fear}.|But {A} was afraid of {fear}.|{A} was not afraid of anything, only of {fear}.|There was just one problem. {A} was afraid of {fear}.]")
    s.p(where, "[The others laughed at {A.him}, and that made it worse.|{A} was ashamed and told nobody.|\"I wish I were brave,\" {A.he} thought.]")
    if s.chance(.5):
        s.p("{A} had a friend, {B.intro}. {oneday}, {B} [saw that something was wrong|asked, \"Are you afraid of {fear}?\"]. [{A} looked down and nodded.|\"I am afraid of {fear},\" said {A} very quietly.] {B} did not laugh. \"[Everybody is afraid of something|I was once afraid of {fear}, too|That is nothing to be ashamed of],\" {B.he} said. \"{advice}.\"")
    else:
        s.parent("B")
        s.p("{oneday}, {A} told {B} about it. {B} [took {A} in {B.his} arms|sat down beside {A}|did not laugh]. \"[Everybody is afraid of something|When I was little, I was afraid of {fear}, too],\" {B.he} said. \"{advice}.\"")
        s.env["B.hand"] = s.env["A.hand"]
    s.p("[So they tried it.|{A} took a deep breath.|\"All right,\" said {A}, ~\"but don't leave me.\"|That evening, they tried it.]", doing)
    s.p(done, "[\"You are very brave,\" said {B}.|{B} was proud of {A}.|\"See?\" said {B} with a smile.]")
    s.close("being brave means to do it even when you are afraid", "many things are not so bad when you look at them closely", "fear gets smaller when you share it", "with a friend beside you, you can be brave")


# skill, first failure, second failure, advice, success
SKILLS = [
    ("ride a bicycle", "{A.he} fell into a bush", "{A.he} rode straight into a puddle", "Look ahead, not down at your feet", "{A.he} rode all the way down the street without falling"),
    ("swim", "{A.he} swallowed a lot of water", "{A.he} sank like a stone", "Kick with your legs and breathe slowly", "{A.he} swam across the whole pond"),
    ("fly a kite", "the kite fell on {A.his} head", "the kite got stuck in a tree", "Run against the wind, and then let the string go, little by little", "the kite rose higher and higher, until it was a tiny dot in the sky"),
    ("whistle", "only air came out", "it sounded like an old teapot", "Make your lips round, like a small cherry, and blow softly", "a clear, high note came out, and a bird answered"),
    ("bake bread", "the bread was as hard as a stone", "the bread was black on the outside", "Give the dough time to rest, and keep the fire small", "the bread was golden and soft, and it smelled wonderful"),
    ("play the flute", "it squeaked like a mouse", "the hens ran away", "Play slowly, and listen to every note", "{A.he} played a song so lovely that everybody stopped to listen"),
    ("draw a horse", "the horse looked like a potato", "the horse had five legs", "First look at the horse for a long time, and then draw what you see", "the horse on the paper looked as if it could gallop away"),
    ("jump over the stream", "{A.he} landed in the water with a splash", "{A.he} stopped just before the edge", "Run fast, and don't stop before you jump", "{A.he} flew through the air and landed on the other side with dry feet"),
    ("skate on the ice", "{A.he} sat down hard on the ice", "{A.he} slid into a heap of snow", "Bend your knees a little and take small steps", "{A.he} glided over the ice in a big circle"),
    ("catch a ball", "the ball hit {A.his} nose", "the ball rolled away between {A.his} legs", "Keep your eyes on the ball until you hold it", "{A.he} caught the ball ten times in a row"),
    ("tie a bow", "it was only a big knot", "the bow fell apart at once", "Make two ears like a rabbit, and then cross them", "there was a neat little bow that did not come undone"),
    ("dance", "{A.he} stepped on {A.his} own feet", "{A.he} turned left when all the others turned right", "Close your eyes and let the music show you the way", "{A.he} danced as lightly as a feather in the wind"),
    ("stand on {A.his} head", "{A.he} fell over to the left", "{A.he} fell over to the right", "Put your {A.hands} flat on the ground and lift your legs very slowly", "{A.he} stood on {A.his} head while {B} counted to twenty"),
    ("juggle", "all three balls fell down", "one ball landed in the soup", "Start with one ball, then take two, and only then three", "the three balls danced through the air and not one of them fell"),
]


def skill(s):
    s.hero(); s.friend()
    name, fail1, fail2, advice, done = s.pick(SKILLS)
    s.set("skill", name); s.env["advice"] = s.t(advice)
    s.open("[There was one thing {A} wanted more than anything: to learn to {skill}.|{A} wanted to learn to {skill}.|More than anything, {A} wanted to learn to {skill}.|But {A} could not {skill}, and {A.he} wanted to learn it.]")
    s.p("{oneday}, {A} tried to {skill} for the first time. [But it was not so easy, and|It looked so easy! But|\"How hard can it be?\" {A.he} thought. But] " + fail1 + ". [\"Ouch!\" said {A}.|\"Oh well,\" said {A}, ~\"I will try again.\"|Some {friendkind} laughed.|That was no good.]",
        "[The next day, {A.he} tried again, but|{A.he} tried a second time, and|So {A.he} tried again. This time,] " + fail2 + ". [\"I will never learn to {skill}!\" cried {A}.|\"I can't do it,\" said {A}. \"I give up.\"|{A} was so angry that {A.he} stamped {A.his} foot.|" + CRY[1:-1] + "]")
    who = s.chance(.6)
    if not who:
        s.elder("B")
    s.p("{B.intro} [had seen everything|was watching|came by and saw it]. \"[Don't give up|It takes time to learn something new|I could not do it at first, either],\" said {B}. \"{advice}. [And try again tomorrow|And practice a little every day|I will help you].\"",
        "[So {A} practiced every day.|{A} listened well and practiced.|They practiced together every afternoon.] [It got a little better each time.|On Monday it was bad. On Tuesday it was not so bad. On Friday it was almost good.|Sometimes {A.he} wanted to stop, but {A.he} went on.]")
    s.p("[And then, one fine day|After two weeks|At last, one morning], it worked: " + done + "! \"[I can do it|I did it|Look, look]!\" [shouted|cried|called] {A}. {B} [clapped and cheered|laughed with joy|was very proud]. \"[I knew you could do it|Well done, {A}|You did not give up, and now you can do it]!\" {B.he} said.",
        "[Now {A} shows others how to {skill}.|That day, {A} did it again and again until it was dark.|{A} {A.joy}.|]" + ("[ " + FRIENDS + "|]" if who else ""))
    s.close("practice makes perfect", "you must not give up too soon", "every master was once a beginner", "small steps lead far", "mistakes help us to learn")


def race(s):
    s.hero(); s.friend()
    s.open("{A} was not very fast, but {A.he} never gave up.")
    s.p("[Nearby|Next door|Not far away] lived {B.intro}. {B} [was the fastest runner far and wide|could run like the wind], and {B.he} [liked to talk about it|told everyone so, every day]. \"[Nobody is as fast as I am|I am the fastest of all|I always win],\" {B.he} said.",
        "{oneday}, there was a race [to the old mill|around the lake|up the hill|to the big oak tree and back]. [The prize was a golden cup.|The prize was a big cake.|Everyone came to watch.] \"You want to run, too, {A}?\" laughed {B}. \"[A snail is faster than you|You will still be running at bedtime]!\" {A} [only smiled|said nothing|answered, \"We will see\"].")
    kind = s.pick("nap help lost proud".split())
    if kind == "nap":
        s.p("One, two, three, go! {B} shot off and was soon far ahead. [{B} looked back and could not see {A} at all.|\"I have so much time,\" {B} thought.] So {B.he} lay down under a tree [to rest|for a little nap] and fell asleep. {A} went on, step by step, and did not stop. [{A.he} was hot and tired, but {A.he} did not stop.|{A.he} passed the tree very quietly.]",
            "When {B} woke up, {A} was almost at the finish line. {B} ran as fast as {B.he} could, but it was too late. {A} had won! [Everybody cheered.|All the {friendkind} cheered.]",
            "{B} hung {B.his} head. \"[I should not have laughed at you|I was too sure of myself],\" {B.he} said. {A} [gave {B.him} a hug|shook {B.his} {B.hand}]. \"[You are still the fastest|Let us practice together],\" {A.he} said[ kindly|]. " + FRIENDS)
        s.close("slow and steady wins the race", "it is not good to boast", "those who keep going reach the goal")
    elif kind == "help":
        s.p("One, two, three, go! {B} shot off and was soon far ahead. But {B} did not look where {B.he} was going. {B.he} [tripped over a root|stepped into a hole|slipped on wet leaves] and hurt {B.his} foot. \"Ouch!\" cried {B}. [One runner after the other ran past.|Nobody stopped.]",
            "Then {A} came. {A.he} could have won a better place, but {A.he} stopped. \"[Lean on me|Hold on to me],\" said {A}. \"We will go together.\" And so they walked slowly to the finish line. They were the last of all, but [everybody cheered for them|everybody clapped and clapped].",
            "\"I laughed at you, and you helped me,\" said {B}. \"I am sorry.\" \"[It is all right|Never mind],\" said {A}. " + FRIENDS)
        s.close("helping is more important than winning", "there are better things than being first", "a kind heart is worth more than a prize")
    elif kind == "lost":
        s.p("One, two, three, go! {B} shot off and was soon far ahead. \"I know a shorter way,\" {B} thought, and {B.he} left the path. But [the bushes grew thicker and thicker|soon {B.he} did not know where {B.he} was], and {B} was lost. {A} stayed on the path and ran and ran. [Slowly, {A.he} passed one runner after the other.|{A.he} did not look left or right.]",
            "{A} was the first at the finish line! But {A.he} did not see {B} anywhere. \"We must look for {B.him},\" said {A}. {A.he} called {B}'s name [again and again|through the woods], until {B} answered. [{B} was very glad to see {A.him}.|\"You came back for me!\" said {B}.] " + FRIENDS)
        s.close("the shortest way is not always the best", "it is not good to boast", "a winner with a good heart wins twice")
    else:
        s.p("Every morning before the race, {A} got up early and practiced. {B} slept long and [ate cake|lay in the sun]. \"I don't need to practice,\" {B.he} said.",
            "Then the day of the race came. One, two, three, go! {B} ran fast, but soon {B.he} was [tired and out of breath|so full of cake that {B.his} side hurt]. {A} ran and ran, and passed {B} just before the finish line. {A} had won! \"How did you do that?\" asked {B}. \"I practiced every day,\" said {A}. \"[We can practice together, if you like|Tomorrow I will show you].\" " + FRIENDS)
        s.close("practice makes perfect", "it is not good to boast", "hard work is worth more than big words")


# place of danger, the warning, the lure, the trouble, the rescue
DANGERS = [
    ("the old bridge", "The wood is rotten, and it could break", "on the other side grew the biggest strawberries in the world",
     "[Halfway across, there was a loud crack, and {A}'s foot went through the wood.|In the middle, a board broke, and {A} hung over the water.]", "lay down flat on the bridge and pulled {A} back by the {A.hand}"),
    ("the bees' tree", "The bees do not like it when someone takes their honey", "the honey smelled so sweet",
     "[{A} reached into the hole, and a cloud of angry bees came out.|Buzz! All at once, the air was full of angry bees.]", "called, \"Jump into the pond!\" {A} jumped, and the bees flew away. {B} helped {A.him} out of the water"),
    ("the dark cave", "One can easily get lost in there", "something was glittering inside",
     "[{A} went around one corner, and another, and then {A.he} did not know the way back.|Deep inside, it was pitch dark, and {A} could not find the way out.]", "came into the cave with a lantern and called {A}'s name until {A.he} answered"),
    ("the frozen pond", "The ice is still too thin", "the ice was as smooth as glass and looked so lovely",
     "[Crack! The ice broke, and {A}'s legs were in the icy water.|After three steps, the ice cracked, and {A} fell in up to {A.his} belly.]", "pushed a long ladder over the ice and pulled {A} out"),
    ("the swamp", "The mud there is deep and does not let go", "a lovely blue flower was growing in the middle of it",
     "[{A} took two steps and sank into the mud up to {A.his} knees.|With every step, {A} sank deeper into the mud.]", "threw {A.him} a strong rope and pulled with all {B.his} might"),
    ("the high wall", "The stones are loose", "behind it was a garden full of cherries",
     "[When {A} was at the top, a stone came loose, and {A.he} could not get down again.|Up on the wall, {A} suddenly saw how high it was. {A.he} could not go forward or back.]", "came with a ladder and helped {A.him} down"),
]


def warning(s):
    s.hero(); s.parent()
    place, why, lure, trouble, help_ = s.pick(DANGERS)
    s.env["d"] = place; s.env["why"] = why
    s.open()
    s.p("\"You may play [wherever you like|everywhere],\" {M} said [every day|to {A}]. \"[Only stay away from|But please don't go near] {d}. {why}.\" \"[Yes|I promise], {M.voc},\" said {A}.",
        "But {oneday.low}, {A} came to {d}, and " + lure + ". [\"Only this once,\" {A.he} thought.|\"Just a little look,\" {A.he} said to {A.self}.|{A} remembered {M}'s words, but {A.he} did not want to think of them now.|\"Nobody will know,\" {A.he} thought.]")
    s.p("So {A} [went closer|went on], [step by step|slowly and carefully|with a beating heart]. " + trouble, "\"Help! Help!\" {A.he} cried. [{A.he} was very frightened.|\"If only I had listened!\" {A.he} thought.]")
    if s.chance(.5):
        s.friend()
        s.p("Luckily, {B.intro} [was near|was passing by|heard {A.him}]. {B} " + help_ + ". \"[That was close|You are lucky that I heard you],\" said {B}. [\"Thank you,\" said {A} with a shaky voice.|{A} thanked {B} from the bottom of {A.his} heart.]",
            "At home, {A} told {M} everything. \"I am sorry, {M.voc},\" {A.he} said. \"[I should have listened to you|I broke my promise].\" {M} [held {A.him} tightly|dried {A.his} tears|wrapped {A.him} in a warm blanket]. \"[I am so glad you are safe|The most important thing is that nothing happened to you],\" {M.he} said.")
    else:
        for k in ("", ".he", ".his", ".him"):
            s.env["B" + k] = s.env["M" + k]
        s.p("{M} heard the cries and came running. {M.he} " + help_ + ". {A} [was shaking all over|began to cry]. \"I am sorry, {M.voc},\" {A.he} said. \"[I should have listened to you|I broke my promise].\"",
            "{M} [held {A.him} tightly|dried {A.his} tears|took {A.him} in {M.his} arms]. \"[I am so glad you are safe|Now you know why I told you],\" {M.he} said. [Then they went home together.|At home, there was hot tea with honey.]")
    s.p("[After that, {A} kept {A.his} promise.|And {A} never went near {d} again.|From then on, {A} listened when someone warned {A.him}.]")
    s.close("there is a good reason for most rules", "one should keep one's promises", "it is wise to listen to a warning", "safe is better than sorry")


# what they build, where, what destroys it, how it is made stronger
BUILDS = [
    ("sandcastle", "on the beach", "a big wave came and washed it away", "built it farther away from the water, with a wall of stones around it"),
    ("tree house", "in the old oak tree", "a strong wind blew in the night, and the boards fell down", "tied every board with strong ropes"),
    ("raft", "by the river", "it fell apart in the water", "tied the logs together with thick ropes"),
    ("snowman", "in the snowy garden", "the warm sun came out and he melted", "built a new one in the shade behind the house"),
    ("dam", "in the little stream", "the rain came and the water broke through", "used bigger stones and a lot of mud"),
    ("hut", "at the edge of the woods", "it rained, and the water ran through the roof", "put a thick layer of leaves on the roof"),
    ("bridge", "over the little stream", "it broke in the middle", "put a big stone under the middle"),
    ("scarecrow", "in the vegetable garden", "the wind knocked him down", "dug a deep hole for the pole"),
    ("bird house", "under the roof of the shed", "a storm threw it to the ground", "nailed it to the wall with long nails"),
]


def build(s):
    s.hero(); s.friend()
    s.env["b"], s.env["b.at"], s.env["b.end"], s.env["b.better"] = s.pick(BUILDS)
    s.open("{A.his} best friend was {B.intro}.")
    s.p("{oneday}, the two friends wanted to build a {b} {b.at}.", "\"[It will be the best {b} in the world|Let us make a big one|I have a plan],\" said {A}. [They worked all morning.|{A} brought what they needed, and {B} put it together.|They worked so hard that they forgot to eat.] [At noon|At last|In the evening], the {b} was ready. [It looked wonderful.|They were very proud.|They danced around it with joy.]")
    s.p("But [then|soon|the next day] {b.end}. [\"Oh no!\" cried {B}.|\"All our work!\" cried {A}.|They stood there and could not believe it.] [\"It was all for nothing,\" said {B}, and hung {B.his} head.|{B} wanted to give up.|{B} had tears in {B.his} eyes.]",
        "[{A} was sad, too, but then {A.he} had an idea.|{A} thought for a while.|But {A} did not want to give up.] \"[We know how to do it now|We can build it again, only better|The first one was for practice],\" {A.he} said.")
    s.p("So they started again. This time, they {b.better}. [Some other {friendkind} came and helped.|It took even longer than before.|{A} worked on one side, and {B} worked on the other.] [When it was ready, they looked at each other and smiled.|And this time, it did not break.|It was even more beautiful than the first one.]",
        "[They sat down beside it and shared {A.food}.|\"We are a good team,\" said {B}.|Everyone came to see it. \"Who built that?\" they asked. \"We did!\" said {A} and {B}.]")
    s.close("two friends together can do great things", "it is always worth trying again", "you can learn from what goes wrong", "good things need time")


def seed(s):
    s.hero(); s.elder("B")
    s.set("s", "[sunflower|pumpkin|apple tree|rose bush|bean plant|melon|cherry tree|strawberry plant]")
    fruit = s.env["s"]
    s.open("But {A} was not very patient. [{A.he} always wanted everything at once.|\"When will it be ready?\" {A.he} asked all the time.|Waiting was the hardest thing in the world for {A.him}.]")
    s.p("{oneday}, {B.intro} gave {A} a tiny seed. \"[Put it into the earth and take good care of it|Plant it and give it water and time],\" said {B}, ~\"and one day it will be a {s}.\" [{A} ran home at once.|{A} could hardly wait.] {A.he} dug a small hole, put the seed in, and gave it some water. Then {A.he} sat down beside it and waited.",
        "[Nothing happened.|The next morning, there was nothing to see.] \"[Grow, little seed|Come out, little seed]!\" said {A}. [{A.he} sang to it.|{A.he} told it a story.|{A.he} even danced for it.] But [still nothing happened|the earth stayed brown and bare].")
    s.p("After [three days|a week], {A} [ran|went] to {B}. \"[The seed is broken|My seed does not work]!\" {A.he} said. {B} [laughed kindly|smiled]. \"[Have you dug it up?|Do you grow in one day?|Good things grow slowly.] [Under the earth, it is already working|You cannot see it yet, but it is growing]. Give it water, give it sun, and wait.\"",
        "So {A} gave it water every day. [{A.he} pulled out the weeds.|When it was hot, {A.he} gave it more water.|When a snail came near, {A} carried it to the other side of the garden.] And {A.he} learned to wait. [While {A.he} waited, {A.he} {h.did}.|]")
    s.p("Then, one morning, there was a tiny green tip. \"[It is growing|You are there|Hello, little plant]!\" [shouted|cried|whispered] {A}. [The plant grew and grew.|Day by day, it grew taller.] " +
        {"sunflower": "In the end, a big golden flower looked down at {A} and followed the sun all day.", "pumpkin": "In the end, there was a pumpkin so big that {A} could sit on it.",
         "apple tree": "Years went by, and one autumn the first red apples hung on the tree.", "rose bush": "In the end, the bush was full of red roses, and the whole garden smelled sweet.",
         "bean plant": "In the end, it was taller than {A}, and full of long green beans.", "melon": "In the end, there was a round green melon, sweet and full of juice.",
         "cherry tree": "Years went by, and one summer the tree was full of dark red cherries.", "strawberry plant": "In the end, there were ten red strawberries, and they were the sweetest in the world."}[fruit],
        "[{A} took the best of it to {B}.|{A} invited everyone to see it.|{A} called {B}, and together they looked at it for a long time.] \"[You waited, and it was worth it|See what patience can do],\" said {B}." )
    s.close("good things take time", "patience brings the sweetest fruit", "those who care and wait are rewarded", "big things start small")


def winter(s):
    s.animal("A"); s.human = False; s.env["friendkind"] = "animals"; s.animal("B")
    s.open("{A}'s neighbor was {B.intro}.")
    s.set("f", "[nuts|apples|seeds|corn|dry berries|turnips]")
    s.p("All summer long, {A} worked. {A.he} gathered {f} and carried them home. [It was hot, but {A.he} did not stop.|Again and again {A.he} went to the field and back.] {B} lay in the grass and [sang|looked at the clouds|slept]. \"[Come and play, {A}|Such a day is made for playing]!\" {B.he} called. \"[Winter is coming|One day it will be cold],\" said {A}. \"[You should gather some food, too.|Will you have enough to eat?]\" \"[Winter is far away|There is so much time],\" said {B}[ and yawned|].")
    s.p("Autumn came, and the leaves fell. {A} [filled {A.his} last basket|mended {A.his} roof|put dry leaves into {A.his} bed]. {B} [still played every day|still slept in the sun].", "Then, one night, the snow came. [The whole world was white.|The wind was howling.] {A} sat in {A.his} warm home and ate {f}. But {B} had nothing. [{B}'s belly rumbled.|{B} looked everywhere, but there was no food under the snow.] {B.he} was [cold and hungry|so hungry that {B.he} could not sleep].")
    s.p("In the end, {B} knocked at {A}'s door. \"[Please|Dear neighbor], can you give me something to eat?\" {B.he} asked[ in a small voice|]. \"[You were right|I should have listened to you|I was foolish].\" {A} [opened the door wide|did not laugh]. \"[Come in and get warm|Come in, there is enough for two],\" {A.he} said. {A} gave {B} {f} and hot tea.",
        "[To say thank you, {B} sang all {B.his} songs, and the long winter evenings were merry.|All winter, {B} told stories by the fire, and {A} laughed.] And the next summer, {B} [worked side by side with {A}|was the first to fill {B.his} basket]. [But in the evening, they both {h.did}.|In the evening, they sang together.]")
    s.close("first comes the work and then the play", "it is wise to think of tomorrow", "a warm heart shares in hard times", "work and song belong together")
