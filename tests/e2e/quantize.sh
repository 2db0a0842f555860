# `stator quantize`: what it writes runs and predicts as well as it should; the same bytes from any number of threads and files; what
# it refuses; nothing is left behind.
. tests/lib.sh
model=configs/demo.gguf
text=tests/data/demo-heldout.txt

# left FOLDER FILE...: the folder holds these files and nothing else, hidden or not.
left() {
    local folder=$1
    shift
    [ "$(find "$folder" -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ')" = "$(printf '%s\n' "$@" | sort | sed '/^$/d' | tr '\n' ' ')" ] ||
        fail "the folder has $(ls -A "$folder" | tr '\n' ' '), expected $*"
}

# The demo's perplexity on this text is 1.2108, with 1.2125 where weights have 4 bits without a search.
test_results_predict() {
    local t most value
    mkdir "$tmp/d"
    for t in BF16:1.2112 Q8_0:1.2112 Q6_K:1.2113 Q5_1:1.2114 Q4_0:1.2130 Q4_K_M:1.2120 \
        IQ4_XS:1.2120 Q3_K_M:1.2125 IQ3_M:1.2125 IQ3_S:1.2125 Q2_K:1.2185; do
        most=${t#*:}
        expect 0 "$stator" quantize $model "$tmp/d/x.gguf" "${t%:*}"
        said '^memory: [0-9.]+ MiB, with [0-9]+ thread'
        left "$tmp/d" x.gguf
        expect 0 "$stator" perplexity "$tmp/d/x.gguf" -f $text --json
        value=$(awk '/"value"/ { print $2 + 0; exit }' "$tmp/out")
        echo "# $t $value"
        awk -v v="$value" -v most="$most" 'BEGIN { exit v > 1.2 && v <= most ? 0 : 1 }' || fail "$t: perplexity $value"
        expect 0 "$stator" inspect "$tmp/d/x.gguf" --json
        printed '"general.quantization_version"'
    done
}

# importance FILE [VALUE]: all of the demo's columns, in the older form: those of each fifth count 4 times as much, or all VALUE.
importance() {
    python3 - $model "$@" <<'EOF' || fail "no importance matrix"
import struct, sys
names = [('blk.%d.%s.weight' % (i, n), 640 if n == 'ffn_down' else 256)
         for i in range(8) for n in ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down')]
data = struct.pack('<i', len(names))
for name, n in names:
    v = [float(sys.argv[3]) if len(sys.argv) > 3 else 4.0 if k % 5 == 0 else 1.0 for k in range(n)]
    data += struct.pack('<i', len(name)) + name.encode() + struct.pack('<ii', 1, n) + struct.pack('<%df' % n, *v)
open(sys.argv[2], 'wb').write(data)
EOF
}

# Types of so few bits want an importance matrix, as llama.cpp says too.
test_few_bits() {
    local t most value
    importance "$tmp/all"
    for t in IQ3_XXS:1.2145 IQ2_M:1.2190 IQ2_XS:1.24 IQ2_XXS:1.30 IQ1_M:1.8 IQ1_S:2.5; do
        most=${t#*:}
        t=${t%:*}
        expect 2 "$stator" quantize $model "$tmp/x.gguf" $t
        said "tensor 'blk.0.[a-z_]*.weight' becomes iq[123]_[a-z]*, which is not written without an importance matrix, and there is none: give --imatrix"
        [ ! -e "$tmp/x.gguf" ] || fail "a file was written"
        expect 0 "$stator" quantize $model "$tmp/x.gguf" $t --dry-run
        said "tensors? \(the first: 'blk.0.[a-z_]*.weight', iq[123]_[a-z]*\) can't be written without an importance matrix"
        expect 0 "$stator" quantize $model "$tmp/x.gguf" $t --imatrix "$tmp/all"
        expect 0 "$stator" perplexity "$tmp/x.gguf" -f $text --json
        value=$(awk '/"value"/ { print $2 + 0; exit }' "$tmp/out")
        echo "# $t $value"
        awk -v v="$value" -v most="$most" 'BEGIN { exit v > 1.2 && v <= most ? 0 : 1 }' || fail "$t: perplexity $value"
        expect 0 "$stator" quantize $model "$tmp/y.gguf" $t --imatrix "$tmp/all" --threads 1
        cmp "$tmp/x.gguf" "$tmp/y.gguf" || fail "$t: one thread gives other bytes"
        rm "$tmp/x.gguf"
    done
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --tensor attn_q=iq2_s
    said "tensor 'blk.0.attn_q.weight' becomes iq2_s, which is not written without"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q2_K_S
    # Importance of 0 everywhere says nothing; a matrix below 0, or of another tensor, is none.
    importance "$tmp/zero" 0
    importance "$tmp/one" 1
    expect 0 "$stator" quantize $model "$tmp/x.gguf" IQ2_M --imatrix "$tmp/zero"
    expect 0 "$stator" quantize $model "$tmp/y.gguf" IQ2_M --imatrix "$tmp/one"
    [ "$(tail -c 1000000 "$tmp/x.gguf" | cksum)" = "$(tail -c 1000000 "$tmp/y.gguf" | cksum)" ] || fail "zeros are not as ones"
    importance "$tmp/below" -1
    expect 2 "$stator" quantize $model "$tmp/x.gguf" IQ2_M --imatrix "$tmp/below"
    said "value 0 is -1, expected a sum of squares"
    python3 -c "import sys; d = open(sys.argv[1], 'rb').read(); open(sys.argv[2], 'wb').write(d.replace(b'blk.0.attn_q', b'blk.9.attn_q'))" "$tmp/all" "$tmp/lacks"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" IQ2_XS --imatrix "$tmp/lacks"
    said "tensor 'blk.0.attn_q.weight' becomes iq2_xs, .*lacks does not have that tensor"
    # Rows of 640 are no whole blocks of 256.
    expect 0 "$stator" quantize $model "$tmp/x.gguf" IQ3_S --dry-run
    said "tensor 'blk.1.ffn_down.weight' becomes iq4_nl: its rows of 640 are no multiple of the 256 values of a block of iq3_s"
}

test_threads_and_files_change_no_byte() {
    local n
    expect 0 "$stator" quantize $model "$tmp/one.gguf" Q4_K_M --threads 1
    for n in 2 7; do
        expect 0 "$stator" quantize $model "$tmp/more.gguf" Q4_K_M --threads $n
        cmp "$tmp/one.gguf" "$tmp/more.gguf" || fail "$n threads give other bytes"
    done
    mkdir "$tmp/s" "$tmp/t"
    expect 0 "$stator" quantize $model "$tmp/s/m-00001-of-00003.gguf" F16
    left "$tmp/s" m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf
    expect 0 "$stator" quantize $model "$tmp/whole.gguf" F16
    # From the files and from the whole, to files and to a whole: the same.
    expect 0 "$stator" quantize "$tmp/whole.gguf" "$tmp/a.gguf" Q5_K_S
    expect 0 "$stator" quantize "$tmp/s/m-00001-of-00003.gguf" "$tmp/b.gguf" Q5_K_S
    cmp "$tmp/a.gguf" "$tmp/b.gguf" || fail "a split model gives other bytes"
    expect 0 "$stator" quantize "$tmp/s/m-00001-of-00003.gguf" "$tmp/t/m-00001-of-00003.gguf" Q5_K_S
    expect 0 "$stator" quantize "$tmp/t/m-00001-of-00003.gguf" "$tmp/c.gguf" Q5_K_S
    cmp "$tmp/a.gguf" "$tmp/c.gguf" || fail "files that are joined give other bytes"
    expect 0 "$stator" run "$tmp/t/m-00001-of-00003.gguf" --tokens "1 2 3" -n 8 --temp 0
    cp "$tmp/out" "$tmp/split.out"
    expect 0 "$stator" run "$tmp/a.gguf" --tokens "1 2 3" -n 8 --temp 0
    cmp "$tmp/out" "$tmp/split.out" || fail "the split model gives another text"
}

test_types() {
    expect 0 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --dry-run
    [ ! -e "$tmp/x.gguf" ] || fail "--dry-run wrote a file"
    printed '^blk.0.attn_v.weight +256 x 64 +q8_0 +q6_k'
    printed '^blk.0.ffn_down.weight +640 x 256 +q8_0 +q8_0 .*rows are no whole blocks'
    printed '^blk.1.ffn_down.weight +640 x 256 +q8_0 +q5_0 .*rows are no whole blocks'
    printed '^total +74 tensors +5771520 weights .* 5\.299 bits per weight'
    said "tensor 'blk.1.ffn_down.weight' becomes q5_0: its rows of 640 are no multiple of the 256 values of a block of q4_k"
    said 'quantised already: the result has the errors of both formats'
    expect 0 "$stator" quantize $model "$tmp/x.gguf" q4_k --json --tensor ffn_=q4_0 --tensor 'blk.*.ffn_up.weight=Q5_1'
    expect 0 "$stator" inspect "$tmp/x.gguf"
    printed '^ +blk.3.ffn_down.weight +q4_0 '
    printed '^ +blk.3.ffn_up.weight +q5_1 '
    printed '^ +blk.3.attn_q.weight +q4_k '
    expect 0 "$stator" quantize $model "$tmp/x.gguf" F16 --tensor ffn_up=nvfp4
    expect 0 "$stator" inspect "$tmp/x.gguf"
    printed '^ +blk.3.ffn_up.weight +nvfp4 '
    expect 0 "$stator" run "$tmp/x.gguf" --tokens "1 2 3" -n 4 --temp 0
    expect 0 "$stator" quantize $model "$tmp/x.gguf" Q1_0 --dry-run
    printed '^token_embd.weight +256 x 2048 +q8_0 +q6_k '
    printed '^blk.0.ffn_down.weight +640 x 256 +q8_0 +q1_0 '
    expect 0 "$stator" quantize $model "$tmp/x.gguf" Q2_0 --dry-run
    printed '^blk.0.attn_v.weight +256 x 64 +q8_0 +q2_0 '
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --tensor ffn_dawn=q6_k
    said 'no tensor has such a name'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --tensor norm=q6_k
    said 'stay as they are'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --tensor ffn_down=q7_k
    said "there is no type 'q7_k', expected one of f32, f16, q4_0"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --tensor ffn_down
    said 'expected PATTERN=TYPE'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_XXL
    said "there is no type 'Q4_K_XXL', expected one of .*Q4_K_M"
}

# Tensors that scale a matrix stay as they are and go with any type of it. F16 has all that NVFP4 has: the same bits.
test_factors() {
    "$(dirname "$stator")/tests/test_peer_models" --write "$tmp" >/dev/null || fail "no models"
    local name
    for name in llama-nvfp4 qwen3moe-nvfp4; do
        expect 0 "$stator" quantize "$tmp/$name.gguf" "$tmp/f16.gguf" F16
        expect 0 "$stator" inspect "$tmp/f16.gguf" --json
        tr -d ' \n' <"$tmp/out" | grep -q '"name":"output.weight","type":"nvfp4"' || fail "$name: output.weight has another type"
        ! tr -d ' \n' <"$tmp/out" | grep -q '"name":"blk[^"]*","type":"nvfp4"' || fail "$name: a matrix of a layer is still nvfp4"
        set -- --tokens-file "$tmp/$name.ids" --set memory.kv_type=f32 --set memory.context=256
        expect 0 "$stator" logits "$tmp/$name.gguf" -o "$tmp/before" "$@"
        expect 0 "$stator" logits "$tmp/f16.gguf" -o "$tmp/after" "$@"
        cmp "$tmp/before" "$tmp/after" || fail "$name: other logits as F16"
        expect 0 "$stator" quantize "$tmp/$name.gguf" "$tmp/q8.gguf" Q8_0
        expect 0 "$stator" logits "$tmp/q8.gguf" -o "$tmp/after" "$@"
        expect 2 "$stator" quantize "$tmp/$name.gguf" "$tmp/q8.gguf" Q8_0 --tensor '[o]utput.weight=q4_0'
        said "output matrix of nvfp4 that has a scale beside it"
    done
}

test_never_onto_its_input() {
    cp $model "$tmp/m.gguf"
    ln -s m.gguf "$tmp/soft.gguf"
    ln "$tmp/m.gguf" "$tmp/hard.gguf"
    for out in m soft hard; do
        expect 2 "$stator" quantize "$tmp/m.gguf" "$tmp/$out.gguf" Q4_0
        said 'is the input itself'
    done
    cmp $model "$tmp/m.gguf" || fail "the input was written to"
    mkdir "$tmp/s"
    expect 0 "$stator" quantize $model "$tmp/s/m-00001-of-00002.gguf" Q8_0
    expect 2 "$stator" quantize "$tmp/s/m-00001-of-00002.gguf" "$tmp/s/m-00002-of-00002.gguf" Q4_0
    expect 2 "$stator" quantize $model /dev/null Q4_0
    said 'not a regular file'
    # An existing output is replaced, through a link too, which stays one.
    echo old >"$tmp/old"
    ln -s old "$tmp/link"
    expect 0 "$stator" quantize $model "$tmp/link" Q4_0
    [ -L "$tmp/link" ] && [ "$(head -c 4 "$tmp/old")" = GGUF ] || fail "the link's target is not the result"
}

# The last tensor of the demo is output_norm.weight, 256 floats; before it lie the 640 x 256 of blk.7.ffn_down.weight.
test_what_is_not_finite() {
    local size
    mkdir "$tmp/d"
    expect 0 "$stator" quantize $model "$tmp/d/f.gguf" F32
    size=$(stat -c %s "$tmp/d/f.gguf")
    cp "$tmp/d/f.gguf" "$tmp/good"
    printf '\0\0\300\177' | dd of="$tmp/d/f.gguf" bs=1 seek=$((size - 1024 - 4)) conv=notrunc 2>/dev/null
    printf '\0\0\200\377' | dd of="$tmp/d/f.gguf" bs=1 seek=$((size - 8)) conv=notrunc 2>/dev/null
    for n in 1 5; do
        expect 4 "$stator" quantize "$tmp/d/f.gguf" "$tmp/d/x.gguf" Q4_K_M --threads $n
        said "f.gguf: element 163839 \(column 639 of row 255\) of tensor 'blk.7.ffn_down.weight' is NaN"
        left "$tmp/d" f.gguf
    done
    cp "$tmp/good" "$tmp/d/f.gguf"
    printf '\0\0\200\377' | dd of="$tmp/d/f.gguf" bs=1 seek=$((size - 8)) conv=notrunc 2>/dev/null
    expect 4 "$stator" quantize "$tmp/d/f.gguf" "$tmp/d/x.gguf" F32
    said "element 254 .* of tensor 'output_norm.weight' is infinite"
    cp "$tmp/good" "$tmp/d/f.gguf"
    printf '\0\0\0\110' | dd of="$tmp/d/f.gguf" bs=1 seek=$((size - 1024 - 4)) conv=notrunc 2>/dev/null
    expect 4 "$stator" quantize "$tmp/d/f.gguf" "$tmp/d/x.gguf" F16
    said 'is 131072, beyond the range of f16'
    expect 0 "$stator" quantize "$tmp/d/f.gguf" "$tmp/d/x.gguf" F16 --tensor blk.7.ffn_down=bf16
    head -c $((size / 2)) "$tmp/good" >"$tmp/d/f.gguf"
    expect 4 "$stator" quantize "$tmp/d/f.gguf" "$tmp/d/y.gguf" F16
    left "$tmp/d" f.gguf x.gguf
}

# A limit of file sizes stands for a full disk; where the test may mount one, a full disk it is.
test_full_disk_leaves_nothing() {
    mkdir "$tmp/d"
    expect 1 sh -c "ulimit -f 2000; exec '$stator' quantize $model '$tmp/d/x.gguf' Q8_0"
    said "x.gguf can't be written"
    left "$tmp/d" ''
    mount -t tmpfs -o size=1m none "$tmp/d" 2>/dev/null || return 0
    trap 'umount "$tmp/d"' EXIT
    expect 1 "$stator" quantize $model "$tmp/d/x.gguf" Q8_0
    said 'do not fit on the disk'
    left "$tmp/d" ''
}

test_signal_leaves_nothing() {
    local s pid got
    mkdir "$tmp/d"
    for s in INT TERM; do
        env --default-signal=$s "$stator" quantize $model "$tmp/d/x.gguf" Q2_K --threads 1 >"$tmp/out" 2>"$tmp/err" &
        pid=$!
        catches $s $pid
        kill -$s $pid
        got=0
        wait $pid || got=$?
        # It may have been done before.
        [ $got = 0 ] && { left "$tmp/d" x.gguf; rm "$tmp/d/x.gguf"; continue; }
        [ $got = 1 ] || fail "exit $got after SIG$s"
        said 'stopped by a signal: nothing is written'
        left "$tmp/d" ''
    done
}

# Memory does not grow with the model: 23 MB are address space for its directory, 8 a stack; the floats would be 22 more.
test_memory_is_bounded() {
    sanitized && skip "sanitizers have memory of their own"
    expect 0 "$stator" quantize $model "$tmp/f.gguf" F32
    expect 0 bash -c "ulimit -d 42000; exec '$stator' quantize '$tmp/f.gguf' '$tmp/x.gguf' Q8_0 --threads 1"
}

test_importance() {
    # The older form: entries of 32-bit lengths, counts and floats.
    python3 - "$tmp" <<'EOF' || fail "no importance matrix"
import struct, sys
def old(entries): return struct.pack('<i', len(entries)) + b''.join(struct.pack('<i', len(n)) + n.encode() + struct.pack('<ii', c, len(v)) +
    struct.pack('<%df' % len(v), *v) for n, c, v in entries)
def text(s): return struct.pack('<Q', len(s)) + s.encode()
def gguf(entries):
    tensors, data = b'', b''
    for n, c, v in entries:
        for name, ne, x in ((n + '.in_sum2', [len(v), 1], v), (n + '.counts', [1, 1], [float(c)])):
            data += b'\0' * (-len(data) % 32)
            tensors += text(name) + struct.pack('<IQQIQ', 2, *ne, 0, len(data))
            data += struct.pack('<%df' % len(x), *x)
    head = b'GGUF' + struct.pack('<IQQ', 3, 2 * len(entries), 2) + text('general.type') + struct.pack('<I', 8) + text('imatrix') + \
        text('imatrix.chunk_count') + struct.pack('<II', 4, 7) + tensors
    return head + b'\0' * (-len(head) % 32) + data
e = [('blk.%d.attn_q.weight' % i, 4, [float(1 + 30 * (k % 5 == 0)) * (k + 1) for k in range(256)]) for i in range(8)]
for name, what in (('old', old(e) + struct.pack('<i', 7)), ('new', gguf(e)), ('short', old(e)[:5000]), ('other', old([(n, c, v[:128]) for n, c, v in e])),
                   ('names', old([('a', 1, [1.0])])), ('nan', old([(n, c, [float('nan')] + v[1:]) for n, c, v in e])), ('twice', old(e + e[:1]))):
    open(sys.argv[1] + '/' + name, 'wb').write(what)
EOF
    expect 0 "$stator" quantize $model "$tmp/a.gguf" Q4_K_M --imatrix "$tmp/old"
    said '45 quantised tensors are not in .*old: all columns count alike there'
    expect 0 "$stator" quantize $model "$tmp/plain.gguf" Q4_K_M
    mkdir "$tmp/n"
    cp "$tmp/new" "$tmp/n/old" # its name is in the result
    expect 0 "$stator" quantize $model "$tmp/b.gguf" Q4_K_M --imatrix "$tmp/n/old"
    cmp "$tmp/a.gguf" "$tmp/b.gguf" || fail "the two forms give other bytes"
    expect 0 "$stator" inspect "$tmp/a.gguf"
    printed 'quantize.imatrix.file +"old"'
    printed 'quantize.imatrix.chunks_count +7$'
    expect 0 "$stator" perplexity "$tmp/a.gguf" -f $text
    [ "$(tail -c 4000000 "$tmp/a.gguf" | cksum)" != "$(tail -c 4000000 "$tmp/plain.gguf" | cksum)" ] || fail "the weights were not heeded"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix "$tmp/short"
    said 'short: entry 5 of 8 is damaged or cut off'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix "$tmp/other"
    said "'blk.0.attn_q.weight' has 128 values, the tensor 256 columns: it was made for another model"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix "$tmp/names"
    said 'none of its names is a tensor of the model'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix "$tmp/nan"
    said "'blk.0.attn_q.weight': value 0 is -?nan, expected a sum of squares"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix "$tmp/twice"
    said "'blk.0.attn_q.weight' is there twice"
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix $text
    said 'this is no importance matrix|damaged or cut off'
    expect 2 "$stator" quantize $model "$tmp/x.gguf" Q4_K_M --imatrix $model
    said 'no tensor of the file has a name that ends in .in_sum2'
    expect 2 "$stator" quantize $model "$tmp/old" Q4_K_M --imatrix "$tmp/old"
    said 'is the importance matrix itself'
}

# On a terminal one line that is written over, up to its end (all that is sure to be seen of a small model); elsewhere lines without a bar.
test_progress() {
    expect 0 python3 tests/clients/pty_drive.py "$stator" quantize $model "$tmp/x.gguf" Q4_0 -- \
        'expect=\rquantizing \[#{30}\] 100%  [^\r]*\r\n' 'absent=quantizing' 'expect=bits per weight'
    rm "$tmp/x.gguf"
    expect 0 "$stator" quantize $model "$tmp/x.gguf" Q4_0
    ! grep -q '\[#' "$tmp/err" || fail "a bar where there is no terminal"
}

# The table of what formats cost: more bits, less divergence.
test_compare_formats() {
    expect 0 tools/compare_formats $model -f $text --formats Q8_0,Q4_0 --kv f16,q4_0 --context 256 -n 0 --stator "$stator" --svg "$tmp/x.svg"
    [ "$(grep -c '^| Q' "$tmp/out")" = 3 ] || fail "$(cat "$tmp/out")"
    awk -F'|' '/^\| Q/ { split($7, v, " "); k[$2 $3] = v[1] + 0 } END { exit k[" Q8_0  f16 "] < k[" Q8_0  q4_0 "] && k[" Q8_0  f16 "] < k[" Q4_0  f16 "] ? 0 : 1 }' \
        "$tmp/out" || fail "$(cat "$tmp/out")"
    grep -q '>Q8_0, KV q4_0</text>' "$tmp/x.svg" || fail "the picture has no such point"
}

run_tests
