# A model with recurrent states and one with windows, served and chatted with: what is gone on from is said, and the answers are those
# of a CPU that computes each prompt anew. On the CPU and on the software driver's GPUs.
. tests/lib.sh
. tests/lib_serve.sh
. tests/lib_gpu.sh

# ask IDS CACHED: so many tokens of the prompt were there.
ask() {
    complete "$1" 8
    [ "$cached" = "$2" ] || fail "$cached tokens were there, expected $2"
}

served() { # OPTION...
    local ids more
    serve_config=$model serve --set memory.sequences=2 --set memory.context=256 "$@"
    ready
    ids=$(count 10 131)
    more=$ids,$(count 300 40)
    ask "$ids" 0
    mv "$tmp/said" "$tmp/first"
    ask "$more" 96
    mv "$tmp/said" "$tmp/second"
    ask "$ids" 96 # 123 tokens lie before the prompt's last 8
    cmp "$tmp/first" "$tmp/said" || fail "the same prompt, another answer"
    get /slots
    answered 200 '"checkpoints":\{"all":8,"used":[2-8],'
    kill -TERM $pid
    ends 0
    serve_config=$model serve --set memory.context=256 --set server.prefix_cache=false --set devices.use=cpu:0
    ready
    ask "$more" 0
    cmp "$tmp/second" "$tmp/said" || fail "what was gone on from changes the answer"
    ask "$ids" 0
    cmp "$tmp/first" "$tmp/said" || fail "another answer than without reuse"
    kill -TERM $pid
    ends 0
}

test_states_served() {
    need_shared oracles/models/qwen35.gguf
    model=$shared/oracles/models/qwen35.gguf
    served
}

test_windows_served() {
    need_shared oracles/models/gemma3.gguf
    model=$shared/oracles/models/gemma3.gguf
    served
}

# Two turns; of the second's prompt most is there already. The same words as without reuse.
chatted() { # COMMAND OPTION...
    local n
    printf '%s' '{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}{% if add_generation_prompt %}<a>{% endif %}' >"$tmp/t.jinja"
    for n in true false; do
        printf '%s\n' "$(seq -s ' ' 10 60)" "$(seq -s ' ' 70 90)" |
            "$@" chat "$model" --template "$tmp/t.jinja" -n 12 --temp 0 --set memory.context=512 --set server.prefix_cache=$n >"$tmp/chat.$n" 2>"$tmp/err" ||
            fail "$(tail -5 "$tmp/err")"
        said "^prompts +[0-9]+ tokens, of them $([ $n = true ] && echo '[1-9][0-9]+' || echo 0) there already"
    done
    cmp "$tmp/chat.true" "$tmp/chat.false" || fail "reuse changes what the chat says"
}

test_states_chatted() {
    need_shared oracles/models/qwen35.gguf
    model=$shared/oracles/models/qwen35.gguf
    chatted "$stator"
}

test_gpu_chatted() {
    need_shared oracles/models/qwen35.gguf
    need_driver
    model=$shared/oracles/models/qwen35.gguf
    chatted gpu devices=1 "$stator"
    clean
    [ "$(total exec.kernel)" -gt 0 ] || fail "no GPU took part"
}

test_gpu_served() {
    need_shared oracles/models/qwen35.gguf
    need_driver
    model=$shared/oracles/models/qwen35.gguf
    export ZE_ENABLE_ALT_DRIVERS=$driver ZESIM=devices=2,$small
    served --set devices.use='"level_zero:0, level_zero:1"'
}

run_tests
