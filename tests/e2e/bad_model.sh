# Bad model files through the binary: exit code 4 and an error that names the file and what is wrong in it. (Truncation at
# every byte is in tests/unit/model/test_gguf.c.)
. tests/lib.sh
corpus=tests/fuzz/corpus_gguf

# refused FILE PATTERN
refused() {
    expect 4 "$stator" inspect "$1"
    said "^stator inspect: $1: .*$2"
    [ "$(wc -l <"$tmp/err")" = 1 ] || fail "more than one line on stderr"
}

# The architecture's name in a copy of a good model, five bytes for five (as sed writes them).
rename_architecture() {
    LC_ALL=C sed "s/\(general.architecture.\{12\}\)llama/\1$1/" $corpus/good_llama.gguf >"$tmp/odd.gguf"
    ! cmp -s $corpus/good_llama.gguf "$tmp/odd.gguf" || fail "nothing was changed"
}

test_good_models_pass() {
    local name
    for name in llama qwen2 qwen3 v2_rope_tokens; do
        expect 0 "$stator" inspect $corpus/good_$name.gguf
        printed '^runs in stator: yes$'
        printed '^ *blk\.0\.ffn_down\.weight +f16 +3 x 2 '
    done
}

test_headers() {
    refused $corpus/bad_version_1.gguf 'version 1'
    refused $corpus/bad_big_endian.gguf 'big-endian'
    refused $corpus/bad_key_count.gguf '9223372036854775808 keys'
    refused $corpus/bad_tensor_count.gguf '9223372036854775808 tensors'
    : >"$tmp/empty.gguf"
    refused "$tmp/empty.gguf" 'empty'
    printf 'GGML\3\0\0\0' >"$tmp/magic.gguf"
    refused "$tmp/magic.gguf" 'not a GGUF file'
    printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377' >"$tmp/keys.gguf"
    refused "$tmp/keys.gguf" '18446744073709551615 keys'
}

test_keys() {
    refused $corpus/bad_string_length.gguf "key 'long.text'"
    refused $corpus/bad_array_length.gguf "key 'long.array'"
    refused $corpus/bad_nested_array.gguf "key 'nested.array': nested arrays"
    refused $corpus/bad_duplicate_key.gguf "key 'general.architecture' is there twice"
    refused $corpus/bad_alignment.gguf "key 'general.alignment' is 3"
    refused $corpus/bad_shape_no_block_count.gguf "key 'llama.block_count' is missing"
    refused $corpus/bad_shape_block_count_type.gguf "key 'llama.block_count' has type string"
    refused $corpus/bad_split_second.gguf 'name the first one'
}

test_tensors() {
    local name
    for name in n_dims_0 n_dims_5 dimension_0 dimension_negative product_wraps type offset_unaligned offset_past_end; do
        refused $corpus/bad_$name.gguf "tensor 't'"
    done
    refused $corpus/bad_duplicate_tensor.gguf "tensor 'first' is there twice"
    refused $corpus/bad_overlap.gguf "tensor 't' .* overlaps tensor 'first'"
    refused $corpus/bad_shape_feed_forward.gguf "tensor 'blk.0.ffn_gate.weight' has shape"
}

test_truncated() {
    local n size
    size=$(stat -c %s $corpus/good_llama.gguf)
    for n in 3 4 7 8 23 24 31 200 600 $((size - 1)); do
        head -c "$n" $corpus/good_llama.gguf >"$tmp/cut.gguf"
        refused "$tmp/cut.gguf" 'truncated'
    done
    dd if=$corpus/good_llama.gguf of="$tmp/cut.gguf" bs=1 count=$((size - 1)) status=none
    refused "$tmp/cut.gguf" "tensor 'blk.0.ffn_down.weight'"
}

# Still a file that can be looked at; the known ones are listed.
test_unknown_architecture() {
    rename_architecture lluma
    expect 0 "$stator" inspect "$tmp/odd.gguf"
    printed "^runs in stator: no: .*'lluma' is not supported .its nearest relative that is: llama; .*; known ones: llama, qwen2, qwen3"
}

# Nothing in a file reaches the terminal as a control character.
test_no_control_characters() {
    rename_architecture 'l\x1b[2J'
    expect 0 "$stator" inspect "$tmp/odd.gguf"
    printed '^ *general.architecture +"l\?\[2J"'
    ! grep -q "$(printf '\033')" "$tmp/out" || fail "an escape character came through"
}

test_paths() {
    expect 2 "$stator" inspect "$tmp/absent.gguf"
    said 'absent.gguf: no such file'
    expect 2 "$stator" inspect "$tmp"
    said 'a directory'
    expect 2 "$stator" inspect
    expect 2 "$stator" inspect --jsom $corpus/good_llama.gguf
    said 'jsom'
    [ "$(id -u)" != 0 ] || return 0
    cp $corpus/good_llama.gguf "$tmp/secret.gguf"
    chmod 0 "$tmp/secret.gguf"
    expect 1 "$stator" inspect "$tmp/secret.gguf"
    said 'Permission denied'
}

# mmproj files: what the tower is, and how many tokens pictures become.
test_towers() {
    local image=tests/fuzz/corpus_picture_jpeg/half.jpg
    expect 0 "$stator" inspect $corpus/good_tower_qwen3vl.gguf --image $image --image tests/fuzz/corpus_picture_png/rgb.png
    printed '^vision tower: qwen3vl_merger, 2 layers of 8 with 2 heads, feed-forward 6, for a text model of width 4$'
    printed '^  patches of 2x2 pixels, 2x2 patches are a token, 1 deepstack layers$'
    printed "^  $image: JPEG of 33x17 pixels, seen as 360x184: 4140 tokens$"
    printed '^  tests/fuzz/corpus_picture_png/rgb.png: PNG of 13x7 '
    printed '^runs in stator: no: it is a vision tower, which model.vision names beside the path of its text model$'
    expect 0 "$stator" inspect $corpus/good_tower_gemma3.gguf --image $image --json
    printed '"projector": "gemma3"'
    printed '"tokens": 5'
    expect 0 "$stator" inspect $corpus/good_tower_pixtral.gguf --image $image
    printed '^  patches of 2x2 pixels, 2x2 patches are a token, pictures have at most 8 pixels a side$'
    printed "^  $image: JPEG of 33x17 pixels, seen as 8x4: 3 tokens$"
    expect 0 "$stator" inspect $corpus/good_tower_gemma4.gguf --image $image
    printed '^vision tower: gemma4v, 1 layers of 8 with 2 heads, feed-forward 6, for a text model of width 4$'
    printed '^  patches of 2x2 pixels, 2x2 patches are a token, a picture becomes as large as 64 pixels$'
    printed "^  $image: JPEG of 33x17 pixels, seen as 8x4: 2 tokens$"
    expect 2 "$stator" inspect $corpus/good_tower_gemma3.gguf --image configs/demo.cfg
    said 'configs/demo.cfg: the picture.s [0-9]* bytes begin as no JPEG, PNG or WebP file does'
    expect 2 "$stator" inspect $corpus/good_llama.gguf --image $image
    said -- '--image needs an mmproj file, and tests/fuzz/corpus_gguf/good_llama.gguf is none'
    LC_ALL=C sed 's/qwen3vl_merger/qwen9vl_merger/' $corpus/good_tower_qwen3vl.gguf >"$tmp/odd.gguf"
    refused "$tmp/odd.gguf" 'is "qwen9vl_merger"; the projectors qwen3vl_merger, qwen2.5vl_merger, gemma3, gemma4v and pixtral are known'
}

test_json() {
    expect 0 "$stator" inspect $corpus/good_qwen2.gguf --json
    printed '"key": "qwen2.rope.freq_base"'
    printed '"name": "blk.0.attn_q.bias"'
    printed '"runs": true'
    expect 4 "$stator" inspect --json $corpus/good_all_kinds.gguf
    said "key 'general.architecture' is missing"
    printed '"runs": false'
}

run_tests
