# The demo as a visitor runs it: `stator run configs/demo.cfg` tells a story, the same one for the same seed.
. tests/lib.sh
cfg=configs/demo.cfg
prompt=' autumn, a wise old toad gave Bibi a tiny seed. "Plant it and give it water and time," said the old toad, "and one day it will be a bean plant." Bibi ran home at once. She'
# Up to "waited" these are float64's words (tests/data/demo.greedy.txt, won by 10.7 at least). The rest was written down from a run
# and pins our own numerics: a winner led by only 0.03 there, so a change of what an operation means may change it.
expected=' dug a small hole, put the seed in, and gave it some water. Then she sat down beside it and waited. Nothing happened. "Come out, little seed!" said Bibi. She told it a story. But still nothing happened.

After a week, Bibi went to'

test_greedy_text() {
    expect 0 "$stator" run $cfg -p "$prompt" --temp 0 -n 60
    [ "$(cat "$tmp/out")" = "$expected" ] || fail "another text: $(cat "$tmp/out")"
    expect 0 "$stator" run $cfg -p "$prompt" --temp 0 -n 24 --json
    printed "\"ids\":\[$(tr ' ' ',' <tests/data/demo.greedy.txt)\]"
    printed "\"prompt_ids\":\[$(tr ' ' ',' <tests/data/demo.prompt.txt)\]"
    expect 0 "$stator" run $cfg --tokens "$(cat tests/data/demo.prompt.txt)" --temp 0 -n 60
    [ "$(cat "$tmp/out")" = "$expected" ] || fail "--tokens gives another text"
}

test_settings_that_change_nothing() {
    local set
    for set in cpu.threads=1 cpu.threads=4 cpu.tier=scalar memory.batch=7 memory.batch=512 memory.context=128 memory.sequences=3 \
        memory.logits_rows=5; do
        expect 0 "$stator" run $cfg -p "$prompt" --temp 0 -n 60 --set $set
        [ "$(cat "$tmp/out")" = "$expected" ] || fail "$set gives another text"
    done
}

test_seeds() {
    local seed
    for seed in 1 2 3; do
        expect 0 "$stator" run $cfg -p 'Once upon a time' -n 80 --seed $seed
        cp "$tmp/out" "$tmp/text$seed"
        [ "$(wc -c <"$tmp/out")" -gt 100 ] || fail "seed $seed: hardly a text"
        expect 0 "$stator" run $cfg -p 'Once upon a time' -n 80 --seed $seed --set cpu.threads=3 --set memory.batch=3
        cmp "$tmp/out" "$tmp/text$seed" || fail "seed $seed: another text the second time"
    done
    ! cmp -s "$tmp/text1" "$tmp/text2" && ! cmp -s "$tmp/text1" "$tmp/text3" && ! cmp -s "$tmp/text2" "$tmp/text3" ||
        fail "two seeds, one text"
}

# Even where the model is led to single bytes of characters. Text ends with what was generated, no newline is added in a pipe.
test_utf8() {
    local seed
    for seed in 1 2 3 4; do
        expect 0 "$stator" run $cfg -p 'Привет, 世界 🦊' -n 100 --temp 5 --top-k 0 --top-p 1 --min-p 0 --ignore-eos --seed $seed
        iconv -f utf-8 -t utf-8 "$tmp/out" >/dev/null || fail "seed $seed: not UTF-8"
    done
    expect 0 "$stator" run $cfg -p 'Once upon a time' -n 1 --temp 0
    [ "$(od -An -tx1 <"$tmp/out")" = ' 2c' ] || fail "not the one comma: $(od -c "$tmp/out")"
}

test_readme_command() {
    expect 0 "$stator" run $cfg -p 'Once upon a time' -n 160
    said '^sealed after|sealed after'
    said '^generation +[0-9]+ tokens'
    (cd "$tmp" && "$OLDPWD/$stator" run "$OLDPWD/$cfg" -p a -n 1 >/dev/null 2>"$tmp/err") || [ "${stator#/}" != "$stator" ] ||
        fail "from another folder: $(cat "$tmp/err")"
}

run_tests
