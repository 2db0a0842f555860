"""Words of the stories: who lives in them, what they own, where they go."""

GIRLS = """Mia Lily Anna Ella Rosa Nora Lucy Emma Clara Ruby Ivy Molly Sara Tina Zoe Amy Hana Maya Nina Lena Ada Eva Kate
Daisy Polly Greta Heidi Sophie Olive Wendy Tilda Freya Elsie Marta Alma Betty Julia Paula Carla Dora Alice Emily Olivia Sophia
Charlotte Amelia Isabella Grace Hannah Abigail Chloe Ellie Lucia Laura Sarah Maria Elena Irene Rebecca Rachel Leah Jane Jenny
Penny Susie Katie Maggie Annie Rosie Josie Nellie Mary Martha Helen Diana Victoria Aisha Fatima Priya Yuki Mei Ingrid Astrid""".split()
BOYS = """Tom Ben Sam Max Leo Tim Jack Finn Noah Oscar Hugo Adam Luke Paul Peter Danny Billy Emil Anton Otto Felix Theo Omar
Ravi Kenji Milo Jonah Simon Toby Robin Henry Arthur Walter Victor Mateo Karl Ned Gus Rory Owen Robert James John William Thomas
Daniel David Michael Alex Andrew Charlie George Harry Edward Frank Fred Joe Joseph Lucas Liam Ethan Mason Logan Elijah Jacob
Nathan Benjamin Samuel Matthew Mark Nick Oliver Patrick Philip Richard Ryan Steve Tommy Johnny Bobby Jimmy Ali Hassan Hiro Sven""".split()
PETS = """Pip Momo Bibi Tiko Nibble Hazel Pepper Maple Clover Biscuit Muffin Button Pebble Sunny Dot Rusty Patch Willow Bramble
Acorn Juniper Fern Poppy Ziggy Tango Coco Mocha Nutmeg Ginger Olly Fizz Twig Bongo Plum Waffle Pumpkin Scout Teddy Bruno Luna
Nino Kiki Lolo Bubbles Snuffle Sprout Rolo Mossy Cricket Bean""".split()

# Made-up names teach the model to carry any name through a story.
NAME_START = "B D F G H J K L M N P R S T V W Z Br Cl Dr Fl Gr Kr Pl Pr St Tr Sh Ch Th".split()
NAME_VOWEL = "a e i o u a e i o ee oo ai".split()
NAME_MIDDLE = "b d f l ll m mm n nn p r rr s t tt v z nd lt rk st mb".split()
NAME_END = "a i o y ie in an el et us ka la na ra mo ni".split()

# kind: (homes, way of moving, sign of joy, favourite food)
ANIMALS = {
    "fox": ("in a cozy den under the roots of an old tree", "trotted", "swished {his} bushy tail", "blueberries"),
    "rabbit": ("in a burrow under a green hill", "hopped", "wiggled {his} nose", "carrots"),
    "bear": ("in a warm cave near the river", "walked", "clapped {his} big paws", "honey"),
    "mouse": ("in a tiny hole behind the bakery", "scurried", "twitched {his} whiskers", "cheese"),
    "hedgehog": ("under a pile of dry leaves", "shuffled", "wiggled {his} little nose", "apples"),
    "duck": ("by the edge of a quiet pond", "waddled", "flapped {his} wings", "bread crumbs"),
    "frog": ("on a lily pad in the pond", "hopped", "jumped up and down", "plums"),
    "squirrel": ("high up in an old oak tree", "ran", "flicked {his} fluffy tail", "nuts"),
    "turtle": ("beside a slow green river", "walked slowly", "nodded {his} little head", "lettuce"),
    "cat": ("in a small house with a red door", "padded", "purred loudly", "fish"),
    "puppy": ("on a busy little farm", "ran", "wagged {his} tail", "bones"),
    "kitten": ("in a basket by the kitchen stove", "padded", "purred softly", "milk"),
    "lamb": ("in a wide green meadow", "skipped", "kicked up {his} heels", "clover"),
    "pony": ("in a stable behind the farmhouse", "trotted", "tossed {his} mane", "apples"),
    "penguin": ("on a cold and snowy island", "waddled", "flapped {his} flippers", "fish"),
    "beaver": ("in a house of sticks on the river", "waddled", "slapped {his} flat tail", "berries"),
    "badger": ("in a neat little burrow in the woods", "walked", "clapped {his} paws", "mushrooms"),
    "mole": ("in a long tunnel under the garden", "shuffled", "wiggled {his} pink nose", "turnips"),
    "sparrow": ("in a nest on top of the school roof", "fluttered", "chirped a happy song", "seeds"),
    "otter": ("in a snug hole on the river bank", "ran", "rolled over and over", "fish"),
    "raccoon": ("in a hollow tree near the village", "ran", "rubbed {his} paws together", "corn"),
    "deer": ("at the edge of a deep forest", "walked", "pricked up {his} ears", "sweet grass"),
    "goat": ("on a rocky hill above the village", "trotted", "kicked up {his} heels", "cabbage"),
    "piglet": ("in a muddy yard beside the barn", "trotted", "wiggled {his} curly tail", "pears"),
    "chick": ("in a warm hen house", "ran", "flapped {his} tiny wings", "corn"),
    "monkey": ("in a tall tree in the jungle", "swung along", "jumped up and down", "bananas"),
    "elephant": ("near a big blue lake", "walked", "lifted {his} trunk high", "melons"),
    "dragon": ("in a cave on a tall green mountain", "walked", "blew a little ring of smoke", "pepper soup"),
    "robot": ("in a workshop full of tools", "rolled", "blinked {his} green lights", "warm oil"),
    "lion": ("in the tall yellow grass", "walked", "shook {his} golden mane", "meatballs"),
    "panda": ("in a quiet bamboo forest", "walked", "clapped {his} paws", "bamboo"),
    "dinosaur": ("in a green valley", "stomped", "swung {his} long tail", "leaves"),
    "giraffe": ("on a wide sunny plain", "walked", "stretched {his} long neck", "leaves"),
    "dog": ("in a red dog house", "ran", "wagged {his} tail", "sausages"),
    "horse": ("in a stable near the mill", "trotted", "tossed {his} mane", "carrots"),
    "owl": ("in a hollow tree", "fluttered", "blinked {his} big eyes", "seeds"),
}
# people other than girls and boys: (who, gender, home)
PEOPLE = [("princess", "f", "in a castle with a hundred windows"), ("prince", "m", "in a castle on a hill"), ("fairy", "f", "inside a big blue flower"),
          ("pirate", "m", "on a ship with red sails"), ("pirate", "f", "on a ship with red sails"), ("knight", "m", "in an old gray tower"),
          ("wizard", "m", "in a crooked tower full of books"), ("witch", "f", "in a crooked little house in the woods"), ("shepherd", "m", "in a hut among the sheep")]
# what the others have in place of paws
HANDS = {"sparrow": "wing", "duck": "wing", "chick": "wing", "penguin": "wing", "owl": "wing", "robot": "hand", "monkey": "hand", "frog": "foot",
         "turtle": "foot", "elephant": "foot", "dinosaur": "claw", "dragon": "claw", "lamb": "hoof", "pony": "hoof", "deer": "hoof", "goat": "hoof",
         "piglet": "hoof", "horse": "hoof", "giraffe": "hoof"}
PLURALS = {"foot": "feet", "hoof": "hooves"}
CHILD_HOMES = ["in a small house at the edge of the village", "in a little white house near the sea", "on a farm with cows and hens",
               "in a tall house in the middle of the town", "in a cottage beside the forest", "above {his} family's bakery",
               "in a house with a blue door", "in a village at the foot of a mountain", "next to a big park"]
CHILD_JOY = ["clapped {his} hands", "jumped for joy", "laughed out loud", "danced around in a circle", "smiled from ear to ear"]
CHILD_FOOD = ["pancakes", "cookies", "strawberries", "noodles", "apple pie", "toast with jam", "rice pudding", "cherries"]

SIZES = ["little", "small", "young", "tiny"]
LOOKS = {
    "fox": ["red", "fluffy"], "rabbit": ["gray", "white", "brown"], "bear": ["brown", "fluffy"], "mouse": ["gray", "brown"],
    "cat": ["black", "striped", "orange"], "puppy": ["brown", "spotted"], "kitten": ["gray", "striped", "white"],
    "frog": ["green"], "turtle": ["green"], "dragon": ["green", "blue", "purple"], "duck": ["yellow", "white"],
    "chick": ["yellow"], "piglet": ["pink"], "pony": ["brown", "white", "spotted"], "robot": ["silver", "yellow", "blue"],
    "goat": ["white", "brown"], "lamb": ["white", "black"],
}

GOOD_TRAITS = ["kind", "curious", "cheerful", "gentle", "brave", "clever", "friendly", "playful", "helpful", "thoughtful", "lively",
               "polite", "patient", "quiet", "funny", "honest", "careful"]

# (to do, doing, did)
HOBBIES = [
    ("sing songs", "singing songs", "sang songs"),
    ("look at the stars", "looking at the stars", "looked at the stars"),
    ("collect shiny stones", "collecting shiny stones", "collected shiny stones"),
    ("tell stories", "telling stories", "told stories"),
    ("dance in the rain", "dancing in the rain", "danced in the rain"),
    ("play hide and seek", "playing hide and seek", "played hide and seek"),
    ("pick wild flowers", "picking wild flowers", "picked wild flowers"),
    ("roll down the hill", "rolling down the hill", "rolled down the hill"),
    ("listen to the birds", "listening to the birds", "listened to the birds"),
    ("splash in puddles", "splashing in puddles", "splashed in puddles"),
    ("chase butterflies", "chasing butterflies", "chased butterflies"),
    ("make up silly rhymes", "making up silly rhymes", "made up silly rhymes"),
    ("watch the clouds", "watching the clouds", "watched the clouds"),
    ("paint pictures", "painting pictures", "painted pictures"),
    ("build towers out of stones", "building towers out of stones", "built towers out of stones"),
    ("play the drum", "playing the drum", "played the drum"),
    ("count the fireflies", "counting the fireflies", "counted the fireflies"),
    ("explore new paths", "exploring new paths", "explored new paths"),
    ("swing on the old gate", "swinging on the old gate", "swung on the old gate"),
    ("look for feathers", "looking for feathers", "looked for feathers"),
    ("draw maps", "drawing maps", "drew maps"),
    ("solve riddles", "solving riddles", "solved riddles"),
    ("skip stones on the water", "skipping stones on the water", "skipped stones on the water"),
    ("play tag", "playing tag", "played tag"),
    ("bake small cakes", "baking small cakes", "baked small cakes"),
    ("water the flowers", "watering the flowers", "watered the flowers"),
]

COLORS = ["red", "blue", "green", "yellow", "purple", "orange", "white", "pink", "golden", "silver"]
# Things one can carry, hold dear and lose: name, adjectives, what one does with it (did, doing)
TOYS = [
    ("ball", ["big", "bouncy", "striped"], "threw it high into the air", "throwing it"),
    ("kite", ["bright", "new", "paper"], "let it fly over the trees", "flying it"),
    ("drum", ["little", "round", "wooden"], "played a marching song on it", "playing on it"),
    ("toy boat", ["little", "wooden", "shiny"], "let it float on the water", "sailing it"),
    ("hat", ["woolly", "pointed", "soft"], "wore it on {A.his} head", "wearing it"),
    ("scarf", ["warm", "long", "striped"], "wore it around {A.his} neck", "wearing it"),
    ("bell", ["little", "shiny", "silver"], "rang it again and again", "ringing it"),
    ("lantern", ["little", "old", "bright"], "held it up to see the path", "carrying it"),
    ("whistle", ["wooden", "tiny", "shiny"], "blew a merry tune on it", "blowing it"),
    ("umbrella", ["big", "spotted", "new"], "twirled it around and around", "twirling it"),
    ("spinning top", ["little", "painted", "fast"], "made it spin on a flat stone", "spinning it"),
    ("teddy bear", ["soft", "old", "fluffy"], "hugged it tightly", "hugging it"),
    ("picture book", ["thick", "old", "lovely"], "looked at all the pictures", "reading it"),
    ("wagon", ["little", "wooden", "shiny"], "pulled it along the path", "pulling it"),
    ("balloon", ["big", "round", "bright"], "held it by its long string", "holding its string"),
    ("blanket", ["soft", "warm", "woolly"], "wrapped it around {A.his} shoulders", "carrying it"),
    ("basket", ["round", "little", "pretty"], "filled it with flowers", "filling it with flowers"),
    ("marble", ["round", "shiny", "glass"], "rolled it along the ground", "rolling it"),
    ("flute", ["wooden", "little", "old"], "played a sweet song on it", "playing it"),
    ("button", ["shiny", "round", "pretty"], "held it up to the sun", "looking at it"),
]
# a small animal may be found asleep in these
SOFT_TOYS = {"hat", "scarf", "basket", "blanket", "umbrella", "wagon"}

GIVERS = ["{A.his} grandmother", "{A.his} grandfather", "{A.his} mother", "{A.his} father", "{A.his} uncle", "{A.his} aunt",
          "{A.his} big sister", "{A.his} big brother", "a kind neighbor"]

# place: (to it, at it, spots there, what one hears or sees)
PLACES = {
    "forest": ("into the forest", "in the forest", ["under a big oak tree", "behind a mossy log", "beside a patch of ferns",
               "between the roots of a pine tree", "near a ring of mushrooms"], ["The leaves whispered in the wind", "Sunlight danced between the trees",
               "A woodpecker was knocking on a tree"]),
    "meadow": ("to the meadow", "in the meadow", ["in the tall grass", "behind a haystack", "near the old fence", "among the daisies",
               "beside a big gray stone"], ["Bees were humming among the flowers", "The grass was soft and green", "Butterflies danced over the flowers"]),
    "river": ("down to the river", "by the river", ["under the wooden bridge", "among the reeds", "behind a big rock", "on the sandy bank",
              "beside the willow tree"], ["The water sparkled in the sun", "Little fish swam between the stones", "The river was singing over the rocks"]),
    "beach": ("to the beach", "on the beach", ["behind a sand dune", "next to an old boat", "between two rocks", "under a heap of seaweed",
              "near the edge of the water"], ["The waves rolled in and out", "Seagulls were crying above the sea", "The sand was warm and soft"]),
    "park": ("to the park", "in the park", ["under the slide", "behind the bench", "beside the fountain", "near the swings", "in the bushes"],
             ["Children were laughing on the swings", "Pigeons were walking around the fountain", "The old bench stood in the sun"]),
    "garden": ("into the garden", "in the garden", ["behind the rose bush", "under the apple tree", "among the cabbages", "next to the shed",
               "beside the watering can"], ["The roses smelled sweet", "A bee buzzed from flower to flower", "Red apples hung on the tree"]),
    "hill": ("up the hill", "on the hill", ["behind a round rock", "under the lonely tree", "in the soft grass", "beside the old mill",
             "near the stone wall"], ["The wind was playing with the grass", "From the top, the village looked very small", "White clouds sailed across the sky"]),
    "market": ("to the market", "at the market", ["under the fruit stand", "behind a pile of baskets", "next to the well", "beside the baker's cart",
               "near the big clock"], ["The air smelled of fresh bread", "People were buying apples and flowers", "A man was playing an old violin"]),
    "farm": ("to the farm", "on the farm", ["behind the barn", "under the hay", "next to the water trough", "beside the hen house", "near the gate"],
             ["The hens were clucking in the yard", "A cow looked over the fence", "The hay smelled sweet"]),
    "pond": ("to the pond", "at the pond", ["among the reeds", "behind a bent willow", "under a big leaf", "next to the little dock", "beside a flat stone"],
             ["Dragonflies flew over the water", "The frogs were singing", "Water lilies floated on the pond"]),
}

SEASONS = {
    "spring": ["One [bright|fresh|mild] spring [morning|day]", "One day in spring", "One morning, when the first flowers were out",
               "On the first warm day of the year"],
    "summer": ["One [warm|sunny|hot|long] summer [morning|day]", "One summer day", "One sunny morning", "One morning, when the sky was blue",
               "On a hot day in July"],
    "autumn": ["One [windy|golden|cool|misty] autumn [morning|day]", "One day in autumn", "One morning, when the leaves were falling",
               "One cloudy morning"],
    "any": ["One day", "One [bright|fine|quiet|lovely] morning", "One Saturday", "One Sunday morning", "Early one morning", "One afternoon",
            "One [sunny|cloudy|windy] day", "One Tuesday", "On Friday morning"],
}

ELDERS = [("an old owl", "the old owl", "m", "an old owl who knew many things"), ("a wise old turtle", "the old turtle", "f", "a wise old turtle"),
          ("an old goose", "the old goose", "f", "an old goose with white feathers"), ("a gray donkey", "the donkey", "m", "a gray donkey with long ears"),
          ("an old farmer", "the farmer", "m", "an old farmer with a straw hat"), ("a kind baker", "the baker", "f", "a kind baker with flour on her nose"),
          ("an old fisherman", "the fisherman", "m", "an old fisherman with a white beard"), ("a friendly gardener", "the gardener", "f", "a friendly gardener with green boots"),
          ("an old crow", "the crow", "f", "an old crow with shiny black feathers"), ("a big brown horse", "the horse", "m", "a big brown horse"),
          ("a wise old toad", "the old toad", "m", "a wise old toad"), ("a friendly cow", "the cow", "f", "a friendly cow with a bell around her neck")]

# What one finds while looking for something else.
JUNK = ["rusty key", "old shoe", "gray feather", "broken cup", "snail", "round stone", "beetle", "dry leaf", "piece of string", "sleepy toad",
        "pine cone", "nutshell", "spoon", "bent nail", "pair of ants"]
