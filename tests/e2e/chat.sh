# `stator chat`: from pipes and on a pseudo-terminal (tests/clients/pty_drive.py): templates, commands, what goes wrong, signals, a full context.
. tests/lib.sh
cfg=configs/demo.cfg
slow='--set cpu.tier=scalar --set cpu.threads=1'

# A template of the simplest kind, in $tmp/t.jinja.
template() { printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% if m.role != "assistant" %} {% endif %}{% endfor %}' >"$tmp/t.jinja"; }
# chat ARGUMENTS: greedy, with that template; standard input is the caller's.
chat() { "$stator" chat $cfg --template "$tmp/t.jinja" --temp 0 "$@"; }
# play STEPS...: the same on a terminal; $options go to stator.
play() {
    local code=$1
    shift
    # shellcheck disable=SC2086
    expect "$code" python3 tests/clients/pty_drive.py --seconds 120 "$stator" chat $cfg --template "$tmp/t.jinja" --temp 0 ${options:-} -- "$@"
}

# with_template TEXT: the demo model with that chat template, as $tmp/m.gguf.
with_template() {
    python3 - "$1" "$tmp/m.gguf" <<'END'
import struct, sys
d = open("configs/demo.gguf", "rb").read()
n_tensors, n_keys = struct.unpack("<QQ", d[8:24])
at = 24
def text():
    global at
    n, = struct.unpack_from("<Q", d, at); at += 8 + n
sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
def value(kind):
    global at
    if kind == 8: text()
    elif kind == 9:
        item, n = struct.unpack_from("<IQ", d, at); at += 12
        for _ in range(n): value(item)
    else: at += sizes[kind]
for _ in range(n_keys):
    text()
    kind, = struct.unpack_from("<I", d, at); at += 4
    value(kind)
keys_end = at
for _ in range(n_tensors):
    text()
    dims, = struct.unpack_from("<I", d, at); at += 4 + 8 * dims + 4 + 8
put = lambda s: struct.pack("<Q", len(s)) + s
head = d[:16] + struct.pack("<Q", n_keys + 1) + d[24:keys_end] + put(b"tokenizer.chat_template") + struct.pack("<I", 8) + put(sys.argv[1].encode())
head += d[keys_end:at]
open(sys.argv[2], "wb").write(head + bytes(-len(head) % 32) + d[(at + 31) // 32 * 32:])
END
}

test_turns() {
    template
    expect 0 chat -n 30 --report "$tmp/report" <<<'Once upon a time'
    cp "$tmp/out" "$tmp/chat"
    said '^turns +1$'
    said '^prompts +[0-9]+ tokens, of them [0-9]+ there already'
    said '^answers +30 tokens'
    said 'growth outside the plan'
    grep -q '"hash": ' "$tmp/report" || fail "no report"
    expect 0 "$stator" run $cfg -p 'Once upon a time ' --temp 0 -n 30 # adds the same BOS
    echo >>"$tmp/out"
    cmp "$tmp/out" "$tmp/chat" || fail "run says something else"
    # The second turn has the first in front of it.
    expect 0 chat -n 5 <<<$'Once upon a time\nThe next day'
    local first
    first=$(head -1 "$tmp/out")
    expect 0 chat -n 5 --system "Once upon a time $first" <<<'The next day'
    said '^turns +1$'
    expect 0 chat -n 5 --seed 4 --temp 1 <<<'A'
    cp "$tmp/out" "$tmp/one"
    expect 0 chat -n 5 --seed 4 --temp 1 <<<'A'
    cmp "$tmp/out" "$tmp/one" || fail "the same seed gives another answer"
}

# The model's own template, the config's in its place, the option's in place of both.
test_which_template() {
    with_template '{{ bos_token }}one {{ messages[0].content }}'
    printf '%s' '{{ bos_token }}two {{ messages[0].content }}' >"$tmp/two.jinja"
    printf '%s' '{{ bos_token }}three {{ messages[0].content }}' >"$tmp/three.jinja"
    printf 'model = { path = "m.gguf" };\nchat = { template = "two.jinja" };\n' >"$tmp/m.cfg"
    local n=0 words
    for words in "$tmp/m.gguf" "$tmp/m.cfg" "$tmp/m.cfg --template $tmp/three.jinja"; do
        n=$((n + 1))
        # shellcheck disable=SC2086
        expect 0 sh -c "echo fox | $stator chat $words --temp 0 -n 12"
        cp "$tmp/out" "$tmp/chat"
        expect 0 "$stator" run $cfg -p "$(echo one two three | cut -d' ' -f$n) fox" --temp 0 -n 12
        echo >>"$tmp/out"
        cmp "$tmp/out" "$tmp/chat" || fail "$words: run says something else"
    done
    expect 2 sh -c "echo | $stator chat $cfg"
    said 'has no chat template .*--template or chat\.template, or use `stator run`'
    ! grep -q sealed "$tmp/err" || fail "the weights were loaded first"
    expect 2 sh -c "echo | $stator chat $cfg --template $tmp/none"
    said 'none can.t be opened'
    printf '%s' '{{ raise_exception("no system here") if messages[0].role == "system" }}x' >"$tmp/t.jinja"
    expect 2 chat --system s <<<hello
    said 'no system here'
    ! grep -q sealed "$tmp/err" || fail "the weights were loaded first"
    expect 0 chat -n 1 <<<hello
}

test_lines() {
    template
    expect 0 chat -n 3 </dev/null
    [ ! -s "$tmp/out" ] || fail "an answer to nothing"
    said '^turns +0$'
    printf '\n  \n\t\n' >"$tmp/in"
    expect 0 chat -n 3 <"$tmp/in"
    said '^turns +0$'
    printf 'Once upon' >"$tmp/in" # without a newline
    expect 0 chat -n 3 <"$tmp/in"
    said '^turns +1$'
    printf 'Once\\\nupon\\\n\na time\\' >"$tmp/in" # two messages; the last line is cut off
    printf '/save %s\n' "$tmp/saved" >"$tmp/save"
    (cat "$tmp/in"; printf '\n\n'; cat "$tmp/save") | expect 0 chat -n 3
    grep -q '"content": "Once\\nupon\\n"' "$tmp/saved" || fail "$(cat "$tmp/saved")"
    grep -q '"content": "a time\\n"' "$tmp/saved" || fail "$(cat "$tmp/saved")"
    printf 'a\0b\377c\r\n' >"$tmp/in" # no text at all, and a line end of another system
    (cat "$tmp/in" "$tmp/save") | expect 0 chat -n 3
    grep -q '"content": "a�b�c"' "$tmp/saved" || fail "$(cat "$tmp/saved")"
    head -c 3000000 /dev/zero | tr '\0' a >"$tmp/in"
    expect 2 chat -n 3 <"$tmp/in"
    said 'the message is longer than the [0-9]+ bytes'
    head -c 20000 /dev/zero | tr '\0' a >"$tmp/in"
    expect 2 chat -n 3 <"$tmp/in"
    said 'has [0-9]+ tokens, memory.context is 1024; /clear begins anew; memory.context=2048 would take about 2.00 MiB more'
    expect 2 chat -n 3 --set memory.context=4 --system 'many words more than four tokens' <<<a
    said 'begins with [0-9]+ tokens, memory.context is 4'
    expect 1 chat -n 3 </
    said "standard input can't be read"
}

test_commands() {
    template
    expect 0 chat <<<$'/help\n/exit\nnever read'
    said '/save FILE'
    said '^turns +0$'
    expect 2 chat <<<'/hlep'
    said 'unknown command /hlep; did you mean /help'
    expect 2 chat <<<'/zzzzzz'
    said 'unknown command /zzzzzz \(/help'
    expect 2 chat <<<'/save'
    said '/save needs the name'
    expect 2 chat <<<'/clear all'
    said '/clear takes nothing'
    expect 0 chat -n 2 <<<$'/usr/bin is a folder\n /help' # messages
    said '^turns +2$'
    expect 0 chat <<<'/memory'
    [ "$(grep -c '^audit of host memory' "$tmp/err")" = 2 ] || fail "no audit"
    expect 0 chat -n 5 --system 'Once upon a time' <<<$'there was\n/clear\nThe fox "Pip"\n/save '"$tmp/my talk.json"
    [ "$(tr -d '\n ' <"$tmp/my talk.json" | grep -o '"role":"[a-z]*"' | tr -d '\n')" = '"role":"system""role":"user""role":"assistant"' ] ||
        fail "$(cat "$tmp/my talk.json")"
    expect 0 "$stator" template "$tmp/t.jinja" -f "$tmp/my talk.json"
    printed 'Once upon a time The fox "Pip" '
    expect 1 chat -n 2 <<<$'a\n/save /dev/full'
    said '/save /dev/full can.t be written: No space left'
    expect 1 chat -n 2 <<<$'a\n/save /nowhere/x'
    said '/save /nowhere/x can.t be written: No such file'
    expect 1 sh -c "echo a | $stator chat $cfg --template $tmp/t.jinja -n 5 >/dev/full"
    said "the text can't be written: standard output"
}

test_options() {
    template
    expect 2 chat --think loud <<<a
    said '--think is "loud"; expected show, hide or off'
    expect 2 chat --temp -1 <<<a
    expect 2 chat -n x <<<a
    expect 2 "$stator" chat
    expect 2 "$stator" chat $cfg b
    expect 3 chat --expect-plan 00000000000000000000000000000000 <<<a
    expect 2 sh -c "echo a | $stator chat $tmp/none.gguf --template $tmp/t.jinja"
    head -c 1000 configs/demo.gguf >"$tmp/cut.gguf"
    expect 4 sh -c "echo a | $stator chat $tmp/cut.gguf --template $tmp/t.jinja"
    # The memory of ThreadSanitizer grows with what a program does.
    expect 0 chat -n 4 --set memory.strict="$(sanitized && echo false || echo true)" --set memory.context=1000 <<<"$(seq 20)"
    said '^turns +20$'
    sanitized || said '^ +\+ +[0-9.]+ (B|KiB) +growth outside the plan'
}

# A prompt that opens the thinking: all that this model says is thought.
test_thinking() {
    printf '%s' '{{ bos_token }}{{ messages[-1].content }} {% if enable_thinking is not defined %}<think>
{% endif %}' >"$tmp/t.jinja"
    expect 0 chat -n 8 <<<$'Once upon a time\n/save '"$tmp/saved"
    [ "$(head -1 "$tmp/out")" = '<think>' ] || fail "not shown: $(cat "$tmp/out")"
    grep -q '"content": "<think>\\n' "$tmp/saved" || fail "not kept: $(cat "$tmp/saved")"
    expect 0 chat -n 8 --think hide <<<$'Once upon a time'
    [ ! -s "$tmp/out" ] || fail "not hidden: $(cat "$tmp/out")"
    said '^answers +8 tokens'
    expect 0 chat -n 8 --think off <<<$'Once upon a time'
    [ -s "$tmp/out" ] && ! grep -q think "$tmp/out" || fail "not off: $(cat "$tmp/out")"
    options='-n 8' play 0 'expect=> ' 'send=Once upon a time\r' 'expect=\x1b\[2m[^<>]*\x1b\[0m' 'expect=> ' 'send=\x04'
}

# The context fills up: said before, refused without losing the chat, begun anew.
test_full_context() {
    template
    expect 0 chat --set memory.context=40 <<<'Once upon a time'
    said 'the answer is cut off: the context of 40 tokens is full; /clear begins anew; memory.context=80 would take about'
    expect 0 chat --set memory.context=40 -n 25 <<<'Once upon a time'
    said 'the context is nearly full: [0-9]+ of 40 tokens; /clear begins anew'
    expect 2 chat --set memory.context=40 -n 25 <<<$'Once upon a time\nthere was a little fox and a little cat and a dog'
    said 'with this message the conversation has [0-9]+ tokens, memory.context is 40; /clear'
    said '^turns +1$'
    options='--set memory.context=40 -n 25' play 0 'expect=> ' 'send=Once upon a time\r' 'expect=nearly full' 'expect=> ' \
        'send=there was a little fox and a little cat and a dog\r' 'expect=with this message' 'expect=> ' \
        'send=/clear\r' 'expect=is empty' 'expect=> ' 'send=Once upon a time\r' 'expect=nearly full' 'expect=> ' \
        "send=/save $tmp/saved\\r" 'expect=2 messages' 'expect=> ' 'send=\x04' 'expect=turns +2\r'
}

test_terminal() {
    template
    options='-n 6' play 0 'expect=/help lists' 'expect=> ' 'send=Once upom\x7fn a tome\x02\x02\x02\x04i\r' 'expect=context [0-9]+ of 1024' 'expect=> ' \
        'send=\r' 'expect=> ' 'send=\x1b[A\x01X\r' 'expect=context' 'expect=> ' 'send=one\\\r' 'expect=\. ' 'send=two\r' 'expect=context' \
        'expect=> ' 'send=\x1b[200~three\rfour\x1b[201~\r' 'expect=context' 'expect=> ' 'send=f\xc3\xbcnf \xe4\xb8\xad\x7f\xe2\x82\xac\r' \
        'expect=context' 'size=40' 'expect=> ' "send=/save $tmp/saved\\r" 'expect=10 messages' 'expect=> ' 'send=abc' 'pause=0.2' 'send=\x15\x04' 'expect=turns +5\r'
    local want
    for want in 'Once upon a time' 'XOnce upon a time' 'one\\ntwo' 'three\\nfour' 'fünf €'; do
        grep -q "\"content\": \"$want\"" "$tmp/saved" || fail "no \"$want\": $(cat "$tmp/saved")"
    done
    # A line of many screens.
    options='-n 2' play 0 'expect=> ' "send=$(head -c 2000 /dev/zero | tr '\0' a)\\r" 'expect=context [0-9]+ of 1024|has [0-9]+ tokens' \
        'expect=> ' 'send=/exit\r' 'expect=turns'
    # The terminal is as it was.
    expect 0 python3 tests/clients/pty_drive.py sh -c "stty -a >$tmp/before; $stator chat $cfg --template $tmp/t.jinja; stty -a >$tmp/after" -- 'expect=> ' 'send=\x04'
    cmp "$tmp/before" "$tmp/after" || fail "the terminal's settings have changed"
    # Standard output elsewhere: no escapes in it.
    expect 0 python3 tests/clients/pty_drive.py --stdout "$tmp/answers" "$stator" chat $cfg --template "$tmp/t.jinja" -n 5 --temp 0 -- \
        'expect=> ' 'send=Once upon\r' 'expect=context' 'expect=> ' 'send=\x04'
    [ "$(wc -l <"$tmp/answers")" -ge 1 ] && ! grep -q $'\033' "$tmp/answers" || fail "escapes in a file"
}

test_ctrl_c() {
    template
    # During an answer: it ends, the chat goes on, its text stays.
    options=$slow play 0 'expect=> ' 'send=Once upon a time\r' 'expect=there' 'send=\x03' 'expect=the answer was ended' 'expect=> ' \
        "send=/save $tmp/saved\\r" 'expect=2 messages' 'expect=> ' 'send=\x03' 'expect=once more' 'expect=> ' 'send=abc' 'pause=0.1' 'send=\x03' 'expect=turns +1\r'
    grep -q '"content": ".*there' "$tmp/saved" || fail "the answer is lost: $(cat "$tmp/saved")"
    # Twice: the second one ends the program, with its report.
    options=$slow play 0 'expect=> ' 'send=Once upon a time\r' 'expect=there' 'send=\x03' 'expect=the answer was ended' 'expect=> ' 'send=\x03' 'expect=turns +1\r'
    # What is typed in between makes it a first one again.
    options='-n 3' play 0 'expect=> ' 'send=\x03' 'expect=once more' 'expect=> ' 'send=Once\r' 'expect=context' 'expect=> ' 'send=\x03' \
        'expect=once more' 'expect=> ' 'send=\x04'
    options=$slow play 0 'expect=> ' 'send=Once upon a time\r' 'expect=there' 'signal=TERM' 'expect=turns +1\r'
    options= play 0 'expect=> ' 'signal=TERM' 'expect=turns +0\r'
}

# From a pipe Ctrl-C ends the answer and the program.
test_signal_in_a_pipe() {
    template
    local pid one
    for one in INT TERM; do
        mkfifo "$tmp/in.$one"
        rm -f "$tmp/out" "$tmp/err" # those of the one before must not be taken for its own
        # shellcheck disable=SC2086
        "$stator" chat $cfg --template "$tmp/t.jinja" --temp 0 $slow <"$tmp/in.$one" >"$tmp/out" 2>"$tmp/err" &
        pid=$!
        exec 7>"$tmp/in.$one"
        echo 'Once upon a time' >&7
        for ((n = 0; n < 3000; n++)); do [ ! -s "$tmp/out" ] || break; sleep 0.02; done
        kill -$one "$pid"
        wait "$pid" || fail "$one: exit $?"
        exec 7>&-
        said '^turns +1$'
    done
    mkfifo "$tmp/in"
    rm -f "$tmp/out" "$tmp/err"
    "$stator" chat $cfg --template "$tmp/t.jinja" <"$tmp/in" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    exec 7>"$tmp/in"
    for ((n = 0; n < 3000; n++)); do ! grep -qs sealed "$tmp/err" || break; sleep 0.02; done
    kill -INT "$pid" # while it waits for a line
    wait "$pid" || fail "waiting: exit $?"
    exec 7>&-
    said '^turns +0$'
}

# A conversation in two processes is the one of a single process. Its beginning comes from cache.kv_dir.
test_resume() {
    local first='Once there was a little boat on a wide blue lake, and the wind was warm and the sun was high' second='It came home'
    template
    expect 0 chat -n 20 --system 'Tell me a story of the sea' <<<"$first"$'\n'"$second"
    cp "$tmp/out" "$tmp/one"
    expect 0 chat -n 20 --system 'Tell me a story of the sea' --resume "$tmp/talk.json" --set "cache.kv_dir=\"$tmp/kv\"" <<<"$first"
    cp "$tmp/out" "$tmp/two"
    expect 0 chat -n 20 --resume "$tmp/talk.json" --set "cache.kv_dir=\"$tmp/kv\"" <<<"$second"
    cat "$tmp/out" >>"$tmp/two"
    cmp "$tmp/one" "$tmp/two" || fail "another conversation: $(cat "$tmp/two")"
    said '^prompts +[0-9]+ tokens, of them (32|64|96) there already'
    [ "$(stat -c %a "$tmp/talk.json")" = 600 ] || fail "others may read the conversation"
    [ "$(stat -c %a "$tmp/kv/talk.json.save")" = 600 ] || fail "its blocks are not pinned: $(ls "$tmp/kv")"
    expect 0 chat -n 5 --resume "$tmp/.hidden" --set "cache.kv_dir=\"$tmp/kv\"" <<<"$first"
    said "--resume $tmp/.hidden: cache.kv_dir keeps its blocks no longer than others: the name of a save begins with a dot"
    [ "$(grep -c '"role"' "$tmp/talk.json")" = 5 ] || fail "the file has: $(cat "$tmp/talk.json")"
    expect 0 chat -n 5 --resume "$tmp/talk.json" <<<'/clear'
    [ "$(grep -c '"role"' "$tmp/talk.json")" = 5 ] || fail "/clear alone changes the file"
    expect 2 chat --system x --resume "$tmp/talk.json" <<<"$first"
    said '--system and --resume: .*talk.json has a conversation already'
    sed -i 's/"user"/"nobody"/' "$tmp/talk.json"
    expect 2 chat --resume "$tmp/talk.json" <<<"$first"
    said "--resume $tmp/talk.json: unexpected value at messages/1/role; expected is what /save"
    head -c 100 /dev/urandom >"$tmp/talk.json"
    expect 2 chat --resume "$tmp/talk.json" <<<"$first"
    said "--resume $tmp/talk.json: "
}

run_tests
