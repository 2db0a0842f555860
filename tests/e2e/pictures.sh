#!/bin/bash
# Pictures through the binary: the plan with a vision tower, `run --image`, `/image` of the chat, and the server's APIs. The model
# and the tower are tests/models/pictures_model.h's, of random weights.
. tests/lib.sh
. tests/lib_serve.sh
png=tests/data/pictures/tower.png
other=tests/fuzz/corpus_picture_jpeg/half.jpg

config() {
    printf '%s\n' "model = { path = \"$PWD/tests/data/pictures/model.gguf\"; vision = \"$PWD/tests/data/pictures/mmproj.gguf\"; };" \
        'devices = { use = "cpu"; };' 'memory = { staging = "1MiB"; sequences = 2; };' 'vision = { decode = "4MiB"; };' \
        "chat = { template = \"$tmp/template\"; };" >"$tmp/box.cfg"
    printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/template"
}

test_plan() {
    config
    expect 0 "$stator" plan "$tmp/box.cfg" --image $png --image $other
    printed "^$png: 30x18 pixels, seen as 30x18: 18 tokens of the prompt$"
    printed "^$other: 33x17 pixels, seen as 36x18: 21 tokens of the prompt$"
    printed 'vision/cpu:0'
    printed 'pictures'
    expect 0 "$stator" plan "$tmp/box.cfg" --json
    printed '"vision": true'
    printed '"max_pixels": 1500000'
    expect 0 "$stator" plan "$tmp/box.cfg" --set speculation.mode=draft --set speculation.model=tests/data/pictures/model.gguf
    printed '^draft/cpu:0'
    printed '^vision/cpu:0'
    printed '^KV of the draft model: .*, on draft/cpu:0$'
    expect 0 "$stator" plan "$tmp/box.cfg" --set devices.split=tensor --set devices.use=cpu:0,cpu:1
    expect 0 "$stator" plan "$tmp/box.cfg" --device a=1GiB --device b=1GiB --set devices.split=tensor
    expect 2 "$stator" plan "$tmp/box.cfg" --set model.vision=tests/fuzz/corpus_gguf/good_tower_gemma3.gguf
    said 'the tower of .*gemma3.gguf is for a text model of width'
    expect 4 "$stator" plan "$tmp/box.cfg" --set model.vision=tests/data/pictures/model.gguf
    said 'no mmproj file'
}

test_run() {
    config
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p abc -n 4 --temp 0 --ignore-eos --json
    printed '"prompt_tokens":2[0-9],'
    grep -o '"ids":[^]]*' "$tmp/out" >"$tmp/first"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p '[IMG]abc' -n 4 --temp 0 --ignore-eos --json --set cpu.threads=1 --set memory.batch=8
    grep -o '"ids":[^]]*' "$tmp/out" | cmp -s - "$tmp/first" || fail "another batch, another answer"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p '[IMG]abc' -n 4 --temp 0 --ignore-eos --json --set speculation.mode=draft --set speculation.model=tests/data/pictures/model.gguf
    grep -o '"ids":[^]]*' "$tmp/out" | cmp -s - "$tmp/first" || fail "with a draft model another answer"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --image $other -p 'a[IMG]b[IMG]c' -n 2 --ignore-eos
    said '^pictures +2 encoded, '
    expect 2 "$stator" run "$tmp/box.cfg" --image $png --image $other -p 'a[IMG]b' -n 2
    said 'the prompt has 1 places for pictures .*, the request 2 pictures'
    expect 2 "$stator" run "$tmp/box.cfg" --image configs/demo.cfg -p a -n 2
    said 'picture 0'
    # What a large picture takes is planned: nothing has grown.
    python3 - "$tmp/large.png" <<'END'
import struct, sys, zlib
chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4000, 2000, 8, 0, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(bytes(4001 * 2000))) + chunk(b"IEND", b""))
END
    expect 0 "$stator" run "$tmp/box.cfg" --image "$tmp/large.png" -p a -n 2 --set vision.decode=64MiB --set memory.strict="$(sanitized && echo false || echo true)"
    sanitized || ! grep -q 'has grown' "$tmp/err" || fail "$(grep 'has grown' "$tmp/err")"
    expect 2 "$stator" run configs/demo.cfg --image $png -p a -n 2
    said 'model.vision names no vision tower'
}

# gemma3: pictures become squares, whose tokens see each other. The marker is the token in front of them.
test_gemma() {
    config
    "${BUILD:-$(dirname "$stator")}/tests/test_pictures_gemma" gemma3 "$tmp/text.gguf" "$tmp/tower.gguf" || fail "no models"
    sed -i "s,^model = .*,model = { path = \"$tmp/text.gguf\"; vision = \"$tmp/tower.gguf\"; };," "$tmp/box.cfg"
    expect 0 "$stator" plan "$tmp/box.cfg" --image $png --image $other
    printed "^$png: 30x18 pixels, seen as 24x24: 17 tokens of the prompt$"
    printed "^$other: 33x17 pixels, seen as 24x24: 17 tokens of the prompt$"
    expect 2 "$stator" plan "$tmp/box.cfg" --set memory.batch=16
    said 'memory.batch is 16, but the 16 tokens of a picture go into one step .* set it to 17 at least'
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --tokens 1,100,265,266,70 -n 4 --temp 0 --ignore-eos --json
    printed '"prompt_tokens":21,'
    grep -o '"ids":[^]]*' "$tmp/out" >"$tmp/first"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --tokens 1,100,265,266,70 -n 4 --temp 0 --ignore-eos --json --set cpu.threads=1 --set memory.batch=17
    grep -o '"ids":[^]]*' "$tmp/out" | cmp -s - "$tmp/first" || fail "another batch, another answer"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p abc -n 1 --json
    printed '"prompt_ids":\[1,.*,265,266,'
    expect 0 "$stator" chat "$tmp/box.cfg" -n 2 <<<"/image $png"$'\nabc'
    said '17 tokens of the prompt; it goes with the next message'
    said '^turns +1$'
}

# gemma 4: a picture becomes as large as the file allows; the marker is its first token.
test_gemma4() {
    config
    "${BUILD:-$(dirname "$stator")}/tests/test_pictures_gemma" gemma4 "$tmp/text.gguf" "$tmp/tower.gguf" || fail "no models"
    sed -i "s,^model = .*,model = { path = \"$tmp/text.gguf\"; vision = \"$tmp/tower.gguf\"; };," "$tmp/box.cfg"
    expect 0 "$stator" plan "$tmp/box.cfg" --image $png --image $other
    printed "^$png: 30x18 pixels, seen as 30x18: 15 tokens of the prompt$"
    printed "^$other: 33x17 pixels, seen as 30x12: 10 tokens of the prompt$"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --image $other -p 'abc' -n 4 --temp 0 --ignore-eos --json
    printed '"prompt_ids":\[1,266,265,267,266,265,267,'
    grep -o '"ids":[^]]*' "$tmp/out" >"$tmp/first"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --image $other -p 'abc' -n 4 --temp 0 --ignore-eos --json --set memory.batch=16 --set memory.sequences=1
    grep -o '"ids":[^]]*' "$tmp/out" | cmp -s - "$tmp/first" || fail "another batch, another answer"
}

test_chat() {
    config
    chat() { "$stator" chat "$tmp/box.cfg" --temp 0 -n 3 "$@"; }
    expect 0 chat <<<'/help'
    said '^  /image \[FILE\] +show a picture with the next message'
    # The answer is that of the same prompt in `run`; the second turn has the picture, too, and does not encode it again.
    expect 0 chat <<<"/image $png"$'\nabc\nb'
    said "^$png: 30x18 pixels, seen as 30x18: 18 tokens of the prompt; it goes with the next message$"
    said '^turns +2$'
    said '^prompts +[4-6][0-9] tokens'
    cp "$tmp/out" "$tmp/chat"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png --tokens 265,263,261,262 --temp 0 -n 3
    (cat "$tmp/out" && echo) | cmp -s - <(head -c $(($(wc -c <"$tmp/out") + 1)) "$tmp/chat") || fail "run says something else"
    expect 0 chat --set memory.strict="$(sanitized && echo false || echo true)" <<<"/image $png"$'\n/image\nabc\n/save '"$tmp/saved"
    said '^1 pictures are dropped$'
    said '2 messages are in .*saved$'
    ! grep -q IMG "$tmp/saved" || fail "it was not dropped: $(cat "$tmp/saved")"
    expect 2 chat <<<'/image'
    said '/image needs the name of a file'
    expect 2 chat <<<"/image $tmp/none"
    said "/image: $tmp/none can't be opened: No such file"
    expect 2 chat <<<"/image $tmp"
    said "/image: $tmp is no file"
    expect 2 chat <<<'/image configs/demo.cfg'
    said '/image: configs/demo.cfg: picture 0: .*JPEG, PNG'
    head -c 33000000 /dev/zero >"$tmp/large"
    (cat $png; cat "$tmp/large") >"$tmp/large.png"
    expect 2 chat --set vision.pictures=1 <<<"/image $tmp/large.png"
    said "/image: there is no room for $tmp/large.png: a conversation's pictures have 8.00 MiB together"
    expect 2 chat --set vision.pictures=1 <<<"/image $png"$'\n'"/image $other"
    said 'the conversation has 1 pictures, as many as vision.pictures allows'
    expect 2 chat <<<"/image $png"$'\n'"/image $png"$'\n'"/image $png"$'\n'"/image $png"$'\nabc'
    said 'with this message the conversation has [0-9]+ tokens, memory.context is 64'
    expect 2 chat --resume "$tmp/talk.json" <<<"/image $png"
    said 'the file of --resume keeps texts only'
    expect 0 chat <<<"/image $png"$'\nabc\n/save '"$tmp/saved"
    said '2 messages are in .*saved, without their pictures'
    expect 2 chat --resume "$tmp/saved" <<<abc
    said 'begins with 1 places for pictures \(\[IMG\]\), but without pictures'
    printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/t.jinja"
    expect 2 "$stator" chat configs/demo.cfg --template "$tmp/t.jinja" <<<"/image $png"
    said '/image: model.vision names no vision tower'
    # On a terminal an error ends nothing, and the picture of a message that was refused waits for the next one.
    expect 0 python3 tests/clients/pty_drive.py --seconds 60 "$stator" chat "$tmp/box.cfg" --temp 0 -n 3 -- 'expect=> ' "send=/image $tmp/none\r" \
        'expect=opened' 'expect=> ' "send=/image $png\r" 'expect=next message' 'expect=> ' "send=$(printf 'c%.0s' {1..60})\r" \
        'expect=with this message' 'expect=> ' 'send=abc\r' 'expect=prompt 2[0-9],' 'expect=> ' 'send=/clear\r' 'expect=is empty' 'expect=> ' \
        'send=abc\r' 'expect=prompt [1-9],' 'expect=> ' 'send=\x04' 'expect=turns +2\r'
}

# The same with qwen3vl_merger: three kinds of positions, deepstack, another marker.
qwen_config() {
    "${BUILD:-$(dirname "$stator")}/tests/test_pictures_qwen" "$tmp/text.gguf" "$tmp/tower.gguf" || fail "no models"
    printf '%s\n' "model = { path = \"$tmp/text.gguf\"; vision = \"$tmp/tower.gguf\"; };" \
        'devices = { use = "cpu"; };' 'memory = { staging = "1MiB"; sequences = 2; };' 'vision = { decode = "4MiB"; };' \
        "chat = { template = \"$tmp/template\"; };" >"$tmp/box.cfg"
    printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/template"
}

test_qwen() {
    qwen_config
    expect 0 "$stator" plan "$tmp/box.cfg" --image $png --image $other
    printed "^$png: 30x18 pixels, seen as 30x18: 15 tokens of the prompt$"
    printed "^$other: 33x17 pixels, seen as 36x18: 18 tokens of the prompt$"
    printed 'vision/cpu:0'
    expect 0 "$stator" plan "$tmp/box.cfg" --image $other --set vision.max_pixels=300
    printed "^$other: 33x17 pixels, seen as 24x12: 8 tokens of the prompt$"
    expect 2 "$stator" plan "$tmp/box.cfg" --set devices.use=cpu:0,cpu:1 --set devices.split=1,2
    said 'the first 2 layers add features of pictures and must be on one device'
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p abc -n 4 --temp 0 --ignore-eos --json
    printed '"prompt_tokens":2[0-9],'
    grep -o '"ids":[^]]*' "$tmp/out" >"$tmp/first"
    expect 0 "$stator" run "$tmp/box.cfg" --image $png -p '<|vision_start|><|image_pad|><|vision_end|>abc' -n 4 --temp 0 --ignore-eos --json \
        --set cpu.threads=1 --set memory.batch=8
    grep -o '"ids":[^]]*' "$tmp/out" | cmp -s - "$tmp/first" || fail "another batch, another answer"
    expect 2 "$stator" run "$tmp/box.cfg" --image $png --image $other -p 'a<|image_pad|>b' -n 2
    said 'the prompt has 1 places for pictures .<|image_pad|>., the request 2 pictures'
    expect 2 "$stator" plan "$tmp/box.cfg" --set model.path=tests/data/pictures/model.gguf
    said 'has 2 layers with deepstack'
    expect 0 "$stator" chat "$tmp/box.cfg" --temp 0 -n 3 <<<"/image $png"$'\nabc\nb'
    said 'seen as 30x18: 15 tokens of the prompt; it goes with the next message$'
    said '^turns +2$'
    serve_config=$tmp/box.cfg
    serve
    ready
    local body="{\"max_tokens\": 2, \"ignore_eos\": true, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,$(data $png)\"}}, {\"type\": \"text\", \"text\": \"abc\"}]}]}"
    raw 'POST %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' /v1/chat/completions $port ${#body} "$body"
    answered 200 '"prompt_tokens": ?2[0-9]'
    kill $pid
    wait $pid || fail "it ended with $?"
}

data() {
    base64 -w0 "$1"
}

test_serve() {
    config
    serve_config=$tmp/box.cfg
    serve
    ready
    local url="data:image/png;base64,$(data $png)"
    ask() { # PATH BODY
        raw 'POST %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" $port ${#2} "$2"
    }
    local part="{\"type\": \"image_url\", \"image_url\": {\"url\": \"$url\"}}" text='{"type": "text", "text": "abc"}'
    ask /v1/chat/completions "{\"max_tokens\": 2, \"ignore_eos\": true, \"messages\": [{\"role\": \"user\", \"content\": [$part, $text]}]}"
    answered 200 '"prompt_tokens": ?2[0-9]'
    ask /v1/messages "{\"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"$(data $png)\"}}, $text]}]}"
    answered 200 '"input_tokens": ?2[0-9]'
    local counted
    counted=$(sed -n 's/.*"input_tokens": *\([0-9]*\).*/\1/p' "$tmp/answer")
    ask /v1/responses "{\"max_output_tokens\": 2, \"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"$url\"}, {\"type\": \"input_text\", \"text\": \"abc\"}]}]}"
    answered 200 '"input_tokens": ?2[0-9]'
    ask /api/chat "{\"stream\": false, \"options\": {\"num_predict\": 2}, \"messages\": [{\"role\": \"user\", \"content\": \"abc\", \"images\": [\"$(data $png)\"]}]}"
    answered 200 '"prompt_eval_count": ?2[0-9]'
    ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"http://a.example/x.png\"}}]}]}"
    answered 400 'the server fetches no pictures'
    ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,%%%%\"}}]}]}"
    answered 400 'no base64'
    ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,QUJD\"}}]}]}"
    answered 400 'picture 0'
    ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [$part, $part, $part, $part, $part]}]}"
    answered 400 'a request may have 4 pictures'
    ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [$part, $part, $part, $part]}]}"
    answered 400 'tokens of text and 72 of 4 pictures, memory.context is 64'
    ask /v1/messages/count_tokens "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"$(data $png)\"}}, $text]}]}"
    answered 200 "\"input_tokens\": ?$counted}"
    ask /tokenize "{\"messages\": [{\"role\": \"user\", \"content\": [$part, $text, $part]}]}"
    answered 200 '"tokens": ?\[265,263,261,262,265\], ?"picture_tokens": ?\[18,18\], ?"count": ?39'
    get /props
    answered 200 '"modalities": ?\{"vision": ?true'
    ask /api/show '{"model": "model"}'
    answered 200 '"capabilities": ?\["completion", ?"vision"\]'
    ask /tokenize '{"content": "abc"}'
    answered 200 '"tokens": ?\[263,261,262\]}'
    kill $pid
    wait $pid || fail "it ended with $?"
}

# Files of all formats, whole and damaged, at the door of the server.
test_files() {
    config
    serve_config=$tmp/box.cfg
    serve --set vision.pictures=10
    ready
    expect 0 python3 tests/clients/pictures_client.py files "$port"
    ready
    kill $pid
    wait $pid || fail "it ended with $?"
}

# The server's loop does not wait for a large picture.
test_large() {
    config
    serve_config=$tmp/box.cfg
    serve --set vision.decode=280MiB
    ready
    expect 0 python3 tests/clients/pictures_client.py stall "$port"
    kill $pid
    wait $pid || fail "it ended with $?"
}

# http:// URLs, from hosts of server.image_hosts alone, and what a hostile one answers.
test_image_hosts() {
    config
    python3 tests/clients/image_host.py $png "$tmp/host_port" &
    local host_pid=$! host part text='{"type": "text", "text": "abc"}'
    for _ in $(seq 600); do
        [ ! -e "$tmp/host_port" ] || break
        kill -0 $host_pid || fail "the host of pictures has ended"
        sleep 0.05
    done
    host=127.0.0.1:$(cat "$tmp/host_port")
    sed -i "s,^chat = ,server = { image_hosts = \"$host\"; max_body = \"2MiB\"; };\nchat = ," "$tmp/box.cfg"
    serve_config=$tmp/box.cfg
    serve
    ready
    ask() { # PATH BODY
        raw 'POST %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" $port ${#2} "$2"
    }
    picture() { # URL
        ask /v1/chat/completions "{\"max_tokens\": 4, \"temperature\": 0, \"ignore_eos\": true, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"$1\"}}, $text]}]}"
    }
    said_text() { sed -n 's/.*"content": *"\([^"]*\)".*/\1/p' "$tmp/answer"; }
    picture "data:image/png;base64,$(data $png)"
    answered 200 '"prompt_tokens": ?2[0-9]'
    said_text >"$tmp/expected"
    for part in /good '/good?x=1#y' /unsized; do
        picture "http://$host$part"
        answered 200 '"prompt_tokens": ?2[0-9]'
        said_text | cmp -s - "$tmp/expected" || fail "$part: another answer"
    done
    ask /v1/messages "{\"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"url\", \"url\": \"http://$host/good\"}}, $text]}]}"
    answered 200 '"input_tokens": ?2[0-9]'
    ask /v1/responses "{\"max_output_tokens\": 2, \"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"http://$host/good\"}, {\"type\": \"input_text\", \"text\": \"abc\"}]}]}"
    answered 200 '"input_tokens": ?2[0-9]'
    ask /tokenize "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"http://$host/good\"}}]}]}"
    answered 200 '"picture_tokens": ?\[ *18 *\]'
    local path why
    while read -r path why; do
        picture "http://$host$path"
        answered 400 "$why"
    done <<'END'
/moved it answers 302, that the picture is elsewhere
/chunked in chunks
/gzip compressed
/huge the file has 99999999999 bytes, at most
/endless the file has more than [0-9]* bytes
/cut it closes the connection after
/head the head of its answer is too long|longer than
/nothing without an answer
/ssh does not speak HTTP/1
/absent it answers 404
/text picture 0
END
    picture "https://$host/good"
    answered 400 'does not speak https'
    picture "http://127.0.0.1:9/good"
    answered 400 'fetches no pictures from 127.0.0.1, port 9'
    picture "http://$host@evil.example/"
    answered 400 'this is no URL'
    # A host that does not answer holds up other pictures and templates for 10 s, and /health not at all.
    local body="{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"http://$host/slow\"}}]}]}"
    raw_slow() { raw 'POST %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' /v1/chat/completions $port ${#body} "$body"; }
    raw_slow
    answered 400 'it takes longer than 10 s'
    kill $host_pid
    wait $host_pid 2>/dev/null
    picture "http://$host/good?later"
    answered 400 "can't be fetched from 127.0.0.1: "
    kill $pid
    wait $pid || fail "it ended with $?"
    sed -i 's,image_hosts = "[^"]*",image_hosts = "no such host",' "$tmp/box.cfg"
    expect 2 "$stator" serve "$tmp/box.cfg"
    said 'server.image_hosts: the host "no" is not found'
}

run_tests
