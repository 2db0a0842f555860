# stator tokenize: llama.cpp's ids for every reference text, both directions, and errors.
. tests/lib.sh

# Splits NAME.inp into files $tmp/t.0000, ... as the reference data's README says.
split_texts() {
    awk -v out="$tmp/t" 'function close_text() { printf "%s", text > sprintf("%s.%04d", out, n); n++; text = ""; lines = 0 }
        /^__ggml_vocab_test__$/ { close_text(); next }
        { text = text (lines++ > 0 ? "\n" : "") $0 }
        END { if (lines > 0) close_text() }' "$1"
}

test_reference_texts() {
    need_shared vocab
    local model args f
    for model in "$shared"/vocab/*.gguf; do
        rm -f "$tmp"/t.*
        split_texts "$model.inp"
        args=()
        for f in "$tmp"/t.*; do args+=(-f "$f"); done
        [ ${#args[@]} = 92 ] || fail "$model.inp has ${#args[@]} / 2 texts, expected 46"
        expect 0 "$stator" tokenize "$model" --no-special "${args[@]}"
        sed 's/^ *//; s/ *$//' "$model.out" | diff - "$tmp/out" >"$tmp/diff" || fail "$model: $(head -5 "$tmp/diff")"
    done
}

# Byte-level vocabularies give every text back; SentencePiece too, since its blank in front is dropped.
test_there_and_back() {
    need_shared vocab
    local name
    cat README.md src/README.md src/kernels/cpu/README.md >"$tmp/text"
    printf 'tail without newline \303\251\360\237\230\200' >>"$tmp/text"
    for name in llama-spm phi-3 qwen2 gpt-2 deepseek-llm; do
        local model="$shared/vocab/ggml-vocab-$name.gguf"
        "$stator" tokenize "$model" -f "$tmp/text" >"$tmp/ids" || fail "$name: encode"
        "$stator" tokenize "$model" --decode <"$tmp/ids" >"$tmp/back" || fail "$name: decode"
        cmp "$tmp/text" "$tmp/back" || fail "$name: the text does not come back"
    done
}

test_special_tokens() {
    need_shared vocab
    local llama="$shared/vocab/ggml-vocab-llama-bpe.gguf"
    expect 0 "$stator" tokenize "$llama" "Hello<|eot_id|>"
    printed '^128000 9906 128009$'
    expect 0 "$stator" tokenize "$llama" --no-special "Hello<|eot_id|>"
    printed '^9906 27'
    expect 0 "$stator" tokenize "$llama" --decode "128000 9906 128009"
    [ "$(cat "$tmp/out")" = "Hello<|eot_id|>" ] || fail "decoded to $(cat "$tmp/out")"
    expect 0 "$stator" tokenize "$llama" --decode --no-special "128000,9906,128009"
    [ "$(cat "$tmp/out")" = "Hello" ] || fail "decoded to $(cat "$tmp/out")"
}

test_input_and_json() {
    need_shared vocab
    local gpt="$shared/vocab/ggml-vocab-gpt-2.gguf"
    printf 'Hello world' | "$stator" tokenize "$gpt" >"$tmp/out" || fail "stdin"
    printed '^15496 995$'
    printf 'Hello world' | "$stator" tokenize "$gpt" -f - --json >"$tmp/out" || fail "stdin by name"
    printed '^\{"n":2,"ids":\[15496,995\],"pieces":\["Hello"," world"\]\}$'
    expect 0 "$stator" tokenize "$gpt" --json --decode "15496 995"
    printed '^\{"text":"Hello world"\}$'
    : >"$tmp/empty"
    expect 0 "$stator" tokenize "$gpt" -f "$tmp/empty" -f "$tmp/empty"
    [ "$(wc -l <"$tmp/out")" = 2 ] || fail "one line per file"
    printf '\377\376 caf\303' >"$tmp/broken"
    expect 0 "$stator" tokenize "$gpt" -f "$tmp/broken"
}

test_errors() {
    need_shared vocab
    local gpt="$shared/vocab/ggml-vocab-gpt-2.gguf"
    expect 2 "$stator" tokenize
    expect 2 "$stator" tokenize "$gpt" a b
    expect 2 "$stator" tokenize "$gpt" a -f "$gpt.inp"
    expect 2 "$stator" tokenize "$gpt" -f "$tmp/nothing"
    said 'nothing'
    expect 4 "$stator" tokenize LICENSE a
    expect 2 "$stator" tokenize "$gpt" --decode "1 two 3"
    said '"two" at byte 2'
    [ ! -s "$tmp/out" ] || fail "printed something before the error"
    expect 2 "$stator" tokenize "$gpt" --decode "50257"
    expect 2 "$stator" tokenize "$gpt" --decode "99999999999999999999"
    expect 2 "$stator" tokenize "$gpt" --decode -- "-1"
    expect 2 "$stator" tokenize "$gpt" --decode "1x"
}

test_megabyte() {
    need_shared vocab
    head -c 1048576 /dev/zero | tr '\0' a >"$tmp/a"
    local name
    for name in llama-spm llama-bpe; do
        expect 0 "$stator" tokenize "$shared/vocab/ggml-vocab-$name.gguf" -f "$tmp/a"
        "$stator" tokenize "$shared/vocab/ggml-vocab-$name.gguf" --decode <"$tmp/out" | cmp - "$tmp/a" || fail "$name"
    done
}

run_tests
