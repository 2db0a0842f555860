#!/usr/bin/python3
"""Logits of small models of the architectures that stator knows, in float64, from their published formulas alone:
what tools/check_peer compares with, and where tests/data/peer_logits.txt comes from. Needs numpy; reads GGUF files
whose tensors are all F32 or NVFP4.

    tools/reference_logits.py MODEL.gguf IDS OUTPUT    IDS: a file of numbers; OUTPUT: float32 [positions][vocab]"""
import struct, sys
import numpy as np

F32, NVFP4 = 0, 40
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}
TEXT, ARRAY = 8, 9
# Architectures whose pairs of RoPE are (2j, 2j + 1); those of the others are (j, j + n / 2).
ADJACENT = ('cohere2', 'deepseek2', 'ernie4_5-moe', 'llama', 'granite', 'granitehybrid', 'granitemoe', 'smollm3', 'mistral3', 'ernie4_5', 'glm4')
POST_NORMS = ('gemma2', 'gemma3', 'gemma-embedding', 'gemma4', 'olmo2', 'exaone4', 'glm4')
# Those whose norms of q and k are of all heads together.
WIDE_NORMS = ('olmo2', 'minimax-m2')
# Layers of one part behind one norm, and feed-forwards without gates.
ONE_PART = ('nemotron_h', 'nemotron_h_moe')
GELU = ('gemma', 'gemma2', 'gemma3', 'gemma4', 'gemma-embedding')
# Those whose tokens see both sides; a window is half on each.
BOTH_SIDES = ('gemma-embedding',)


class Reader:
    def __init__(self, path):
        self.data, self.at = open(path, 'rb').read(), 4

    def take(self, code):
        v = struct.unpack_from('<' + code, self.data, self.at)[0]
        self.at += struct.calcsize('<' + code)
        return v

    def text(self):
        n = self.take('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            item, n = self.take('I'), self.take('Q')
            return [self.value(item) for _ in range(n)]
        return self.take(SCALARS[kind])


def read_model(path):
    r = Reader(path)
    r.take('I')
    tensors, keys = r.take('Q'), r.take('Q')
    meta = {}
    for _ in range(keys):
        name = r.text()
        meta[name] = r.value(r.take('I'))
    directory = []
    for _ in range(tensors):
        name, dims = r.text(), r.take('I')
        shape = [r.take('Q') for _ in range(dims)][::-1]
        kind = r.take('I')
        if kind not in (F32, NVFP4):
            sys.exit('%s: tensor %s is neither F32 nor NVFP4' % (path, name))
        directory.append((name, shape, kind, r.take('Q')))
    base = (r.at + 31) // 32 * 32
    values = lambda kind, n, at: np.frombuffer(r.data, '<f4', n, at) if kind == F32 else nvfp4(r.data, n, at)
    return meta, {name: values(kind, int(np.prod(shape)), base + offset).reshape(shape).astype(np.float64)
                  for name, shape, kind, offset in directory}


def nvfp4(data, n, at):
    """Blocks of 64 numbers of 4 bits (E2M1), 16 of which share a scale of 8 bits (E4M3, without a sign)."""
    blocks = np.frombuffer(data, np.uint8, n // 64 * 36, at).reshape(-1, 36)
    exponent, mantissa = blocks[:, :4] >> 3, (blocks[:, :4] & 7) / 8
    scale = np.where(exponent == 0, mantissa * 2.0 ** -6, (1 + mantissa) * 2.0 ** (exponent.astype(int) - 7))
    nibbles = np.stack([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], 1).reshape(-1, 2, 4, 8).transpose(0, 2, 1, 3).reshape(-1, 4, 16)
    size = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])[nibbles & 7]
    return (np.where(nibbles & 8, -size, size) * scale[:, :, None]).reshape(-1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def relu2(x):
    return np.maximum(x, 0) ** 2


def softmax(x, sink=None):
    top = x.max(-1, keepdims=True) if sink is None else np.maximum(x.max(-1, keepdims=True), sink)
    p = np.exp(x - top)
    return p / (p.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink - top)))


class Model:
    pictures = None

    def __init__(self, path, context):
        self.meta, self.tensors = read_model(path)
        self.arch, self.context = self.meta['general.architecture'], context
        self.eps = self.key('attention.layer_norm_rms_epsilon') or self.key('attention.layer_norm_epsilon')
        self.heads, self.kv_heads, self.dim = (self.key('attention.' + n) for n in ('head_count', 'head_count_kv', 'key_length'))
        self.kv_heads = max(self.kv_heads) if isinstance(self.kv_heads, list) else self.kv_heads  # 0: layers without attention
        self.rot = self.key('rope.dimension_count', self.dim)

    def key(self, name, default=None):
        return self.meta.get(self.arch + '.' + name, default)

    def has(self, name):
        return '%s.%s' % (self.layer, name) in self.tensors

    def w(self, name):
        return self.tensors['%s.%s' % (self.layer, name)]

    def scale(self, name):
        """What the products with a matrix, or with each of several, are multiplied with, before their biases."""
        return self.w(name + '.scale') if self.has(name + '.scale') else np.ones(1024)

    def product(self, x, name):
        y = x @ self.w(name + '.weight').T * self.scale(name)[0]
        return y + self.w(name + '.bias') if self.has(name + '.bias') else y

    def norm(self, x, weight):
        if self.arch == 'cohere2':  # LayerNorm without a bias
            x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight

    def angles(self, base, scaled):
        """Frequencies of the pairs, and what cos and sin are multiplied by."""
        if not scaled:
            return base ** (-np.arange(0, self.rot, 2) / self.rot), 1
        f, factor = base ** (-np.arange(0, self.rot, 2) / self.rot), self.key('rope.scaling.factor', 1.0)
        kind, original = self.key('rope.scaling.type'), self.key('rope.scaling.original_context_length', 0)
        if 'rope_freqs.weight' in self.tensors:
            f = f / self.tensors['rope_freqs.weight']
        if 'rope_factors_long.weight' in self.tensors:
            f = f / self.tensors['rope_factors_%s.weight' % ('long' if self.context > original else 'short')]
            return f, self.key('rope.scaling.attn_factor')
        if kind == 'linear':
            return f / factor, 1
        if kind != 'yarn':
            return f, 1
        pair = lambda turns: self.rot * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
        low, high = pair(32), pair(1)
        if self.arch != 'gpt-oss':  # its published rope_parameters have truncate = false
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, self.rot - 1)
        ramp = np.clip((np.arange(self.rot // 2) - low) / max(high - low, 0.001), 0, 1)
        magnitude = 1 + 0.1 * np.log(factor)
        if self.key('rope.scaling.yarn_log_multiplier', 0):
            magnitude = 1
        return f * (1 - ramp) + f / factor * ramp, magnitude

    def rotate(self, x, base, scaled):
        f, magnitude = self.angles(base, scaled)
        a = (np.arange(len(x))[:, None] * f)[:, None]
        cos, sin, y, n = np.cos(a) * magnitude, np.sin(a) * magnitude, x.copy(), self.rot
        one, two = (slice(0, n, 2), slice(1, n, 2)) if self.arch in ADJACENT else (slice(0, n // 2), slice(n // 2, n))
        y[..., one], y[..., two] = x[..., one] * cos - x[..., two] * sin, x[..., one] * sin + x[..., two] * cos
        return y

    def window_of(self, i):
        """Tokens that layer i sees, or None, and its base of RoPE (None: no RoPE)."""
        base, window = self.key('rope.freq_base', 10000.0), self.key('attention.sliding_window')
        if self.arch in ('gemma3', 'gemma-embedding'):
            return (window, 10000.0) if (i + 1) % 6 else (None, base)
        if self.arch == 'gemma4':
            far = not self.key('attention.sliding_window_pattern')[i]
            return (None, base) if far else (window, self.key('rope.freq_base_swa', 10000.0))
        if self.arch == 'gemma2':
            return (None if i % 2 else window), base
        if self.arch == 'olmo2' and window:
            return (window if (i + 1) % 4 else None), base
        if self.arch == 'exaone4' and window:  # layers that see all tokens do not rotate
            return (window, base) if (i + 1) % 4 else (None, None)
        if self.arch == 'gpt-oss':
            return (window if i % 2 == 0 else None), base
        if self.arch.startswith('lfm2'):
            return window, base
        if self.arch == 'cohere2':
            return (window, base) if (i + 1) % 4 else (None, None)
        if self.arch == 'smollm3':
            return None, base if (i + 1) % 4 else None
        if self.key('rope.scaling.finetuned') is False or self.arch in ONE_PART:
            return None, None
        return None, base

    def attention(self, h, i):
        n, gate = len(h), None
        source = self.layer
        if self.arch == 'gemma4':  # layers with a window have heads of their own; the last layers have no K and V
            windows, owners = self.key('attention.sliding_window_pattern'), self.key('block_count') - self.key('attention.shared_kv_layers', 0)
            if i >= owners:
                source = 'blk.%d' % max(j for j in range(owners) if windows[j] == windows[i])
            self.dim = len(self.w('attn_q_norm.weight'))
            self.kv_heads = len(self.tensors[source + '.attn_k.weight']) // self.dim
            self.rot = self.key('rope.dimension_count' + ('_swa' if self.window_of(i)[0] else ''))
        q_width, kv_width = self.heads * self.dim, self.kv_heads * self.dim
        if self.has('attn_qkv.weight'):
            q, k, v = np.split(self.product(h, 'attn_qkv'), [q_width, q_width + kv_width], axis=1)
            if self.has('attn_q.bias'):
                q, k, v = q + self.w('attn_q.bias'), k + self.w('attn_k.bias'), v + self.w('attn_v.bias')
        elif source != self.layer:
            q, (k, v) = self.product(h, 'attn_q'), self.kept[source]
        else:
            q, k, v = (self.product(h, 'attn_' + (x if self.has('attn_%s.weight' % x) else 'k')) for x in 'qkv')
        if self.arch in WIDE_NORMS:
            q, k = self.norm(q, self.w('attn_q_norm.weight')), self.norm(k, self.w('attn_k_norm.weight'))
        q, k, v = (x.reshape(n, -1, self.dim) for x in (q, k, v))
        if self.arch.startswith('qwen35') or self.arch in ('qwen3next', 'qwen4exp'):
            q = q.reshape(n, self.heads, 2 * self.dim)
            q, gate = q[..., :self.dim], q[..., self.dim:]
        late = self.arch == 'hunyuan-dense'  # norms of heads come after RoPE
        if self.arch not in WIDE_NORMS and not late and self.has('attn_q_norm.weight'):
            q = self.norm(q, self.w('attn_q_norm.weight'))
            k = self.norm(k, self.w('attn_k_norm.weight')) if source == self.layer else k
        if self.arch == 'gemma4' and source == self.layer:
            v = self.norm(v, 1)
        window, base = self.window_of(i)
        if base is not None:
            scaled = self.arch not in ('olmo2', 'gemma4') or window is None
            q, k = self.rotate(q, base, scaled), self.rotate(k, base, scaled) if source == self.layer else k
        if late:
            q, k = self.norm(q, self.w('attn_q_norm.weight')), self.norm(k, self.w('attn_k_norm.weight'))
        chosen = self.chosen(h, base) if self.key('attention.compress_ratios', [0] * (i + 1))[i] else None
        self.kept[self.layer] = k, v
        q = q * self.temperature(n)[:, None, None]
        k, v = (np.repeat(x, self.heads // self.kv_heads, axis=1) for x in (k, v))
        scores = np.einsum('ihd,jhd->hij', q, k) * (self.key('attention.scale', 0) or (1 if self.arch == 'gemma4' else self.dim ** -0.5))
        scores = self.capped(scores, 'attn_logit_softcapping', 50)
        behind = np.arange(n)[:, None] - np.arange(n)
        if self.arch in BOTH_SIDES:
            scores = np.where(np.abs(behind) > (n if window is None else window // 2), -np.inf, scores)
        else:
            hidden = (behind < 0) | (behind >= (window or n))
            if self.pictures is not None:  # the number of each token's picture, or -1: tokens of a picture see each other
                hidden &= (self.pictures[:, None] != self.pictures) | (self.pictures < 0)
            scores = np.where(hidden if chosen is None else hidden | ~chosen, -np.inf, scores)
        p = softmax(scores, self.w('attn_sinks.weight')[:, None, None] if self.has('attn_sinks.weight') else None)
        out = np.einsum('hij,jhd->ihd', p, v)
        return self.product((out if gate is None else out * sigmoid(gate)).reshape(n, -1), 'attn_output')

    def chosen(self, h, base):
        """Which tokens each one sees by its indexer: those of the best blocks, and those behind its last whole block."""
        n, dim, ratio = len(h), self.key('attention.indexer.key_length'), max(self.key('attention.compress_ratios'))
        q = self.norm(self.product(h, 'indexer.q_proj').reshape(n, -1, dim), self.w('indexer.q_norm.weight'))
        k = self.product(h, 'indexer.k_proj')[:n // ratio * ratio].reshape(-1, ratio, dim).mean(1)
        spread = np.zeros((n, 1, dim))  # block keys at their first tokens' places
        spread[:len(k) * ratio:ratio, 0] = self.norm(k, self.w('indexer.k_norm.weight'))
        q, k = self.rotate(q, base, True), self.rotate(spread, base, True)[:len(k) * ratio:ratio, 0]
        scores = np.maximum(np.einsum('thd,bd->thb', q, k), 0).sum(1)
        sees = np.zeros((n, n), bool)
        for t in range(n):
            whole = (t + 1) // ratio
            for b in np.argsort(-scores[t, :whole], kind='stable')[:self.key('attention.indexer.top_k') // ratio]:
                sees[t, b * ratio:(b + 1) * ratio] = True
            sees[t, whole * ratio:t + 1] = True
        return sees

    def ngrams(self, x, ids):
        """What the n-grams that end at each token add to its streams."""
        n, count, width = x.shape
        u = lambda name: np.array(self.key('ple.' + name), np.uint64)
        size, each, eos = self.key('ple.ngram_size'), self.key('ple.heads_per_ngram'), self.key('ple.eos_token_id')
        rows = np.zeros((n, (size - 1) * each), np.int64)
        for t in range(n):
            recent, cut = [ids[t]], False
            for back in range(1, size):
                cut = cut or t < back or ids[t - back] == eos
                recent.append(eos if cut else ids[t - back])
            terms = np.array(recent, np.uint64) * u('layer_multipliers')[:size]
            for k in range(2, size + 1):
                h = slice((k - 2) * each, (k - 1) * each)
                rows[t, h] = np.bitwise_xor.reduce(terms[:k]) % u('head_vocab_sizes')[h] + u('head_offsets')[h]
        e = self.tensors['per_layer_token_embd.weight'][rows].reshape(n, -1)
        w = lambda name: self.w('ple_norm_%s.weight' % name).reshape(count, width)
        s = (self.norm(self.product(e, 'ple_key').reshape(x.shape), w('key')) * self.norm(x, w('query'))).sum(2) / np.sqrt(width)
        g = sigmoid(np.sign(s) * np.sqrt(np.maximum(np.abs(s), 1e-6)))[:, :, None] * self.product(e, 'ple_value')[:, None]
        taps = self.key('ple.conv_kernel')
        before = np.vstack([np.zeros(((taps - 1) * size, count * width)), self.norm(g, w('conv')).reshape(n, -1)])
        y = sum(before[t * size:t * size + n] * self.w('ple_conv1d.weight')[:, t] for t in range(taps))
        return g + silu(y).reshape(x.shape)

    def latent(self, h):
        """Latent attention, with K and V of each head made of the row that all share."""
        n, rank, head = len(h), self.key('attention.kv_lora_rank'), self.key('attention.key_length_mla', 0) or self.key('attention.key_length')
        low = self.norm(self.product(h, 'attn_q_a'), self.w('attn_q_a_norm.weight')) if self.has('attn_q_a.weight') else h
        q = self.product(low, 'attn_q_b' if self.has('attn_q_b.weight') else 'attn_q').reshape(n, self.heads, head)
        row = self.product(h, 'attn_kv_a_mqa')
        c, far = self.norm(row[:, :rank], self.w('attn_kv_a_norm.weight')), row[:, None, rank:]
        base = self.key('rope.freq_base', 10000.0)
        q_far, far = self.rotate(q[..., head - self.rot:], base, True), self.rotate(far, base, True)
        if self.has('attn_k_b.weight'):
            k, v = np.einsum('tr,hrn->thn', c, self.w('attn_k_b.weight')), np.einsum('tr,hvr->thv', c, self.w('attn_v_b.weight'))
        else:  # as the model has it
            k, v = np.split((c @ self.w('attn_kv_b.weight').T).reshape(n, self.heads, -1), [head - self.rot], axis=2)
        scores = np.einsum('ihn,jhn->hij', q[..., :head - self.rot], k) + np.einsum('ihn,jn->hij', q_far, far[:, 0])
        stretch = 1 + self.key('rope.scaling.yarn_log_multiplier', 0) * np.log(self.key('rope.scaling.factor', 1.0))
        scores = np.where(np.arange(n)[:, None] < np.arange(n), -np.inf, scores * head ** -0.5 * stretch ** 2)
        return self.product(np.einsum('hij,jhv->ihv', softmax(scores), v).reshape(n, -1), 'attn_output')

    def capped(self, x, key, default):
        cap = self.key(key, default if self.arch == 'gemma2' else 0)
        return cap * np.tanh(x / cap) if cap else x

    def temperature(self, n):
        """What queries are multiplied by, by position."""
        scale, original = self.key('attention.temperature_scale', 0), self.key('rope.scaling.original_context_length', 1)
        return 1 + scale * np.log(1 + np.floor(np.arange(n) / original))

    def delta(self, h):
        """The gated delta rule, token by token; value head v has the key of head v mod their number, or they lie together."""
        n, dim, keys, values, taps = len(h), *(self.key('ssm.' + x) for x in ('state_size', 'group_count', 'time_step_rank', 'conv_kernel'))
        if self.has('ssm_in.weight'):
            parts = self.product(h, 'ssm_in').reshape(n, keys, -1)
            cuts = np.cumsum([dim, dim, values // keys * dim])
            *qkv, z = (x.reshape(n, -1) for x in np.split(parts, cuts, axis=2))
            qkv = np.hstack(qkv)
        else:
            qkv, z = self.product(h, 'attn_qkv'), self.product(h, 'attn_gate')
        rows = np.vstack([np.zeros((taps - 1, qkv.shape[1])), qkv])
        y = silu(sum(rows[t:t + n] * self.w('ssm_conv1d.weight')[:, t] for t in range(taps)))
        q, k, v = (x.reshape(n, -1, dim) for x in np.split(y, [keys * dim, 2 * keys * dim], axis=1))
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + self.eps) for x in (q, k))
        of, group = np.arange(values) % keys, values // keys
        if self.has('ssm_ba.weight'):
            of = np.arange(values) // group
            beta, alpha = (x.reshape(n, values) for x in np.split(self.product(h, 'ssm_ba').reshape(n, keys, 2 * group), 2, axis=2))
        else:
            beta, alpha = self.product(h, 'ssm_beta'), self.product(h, 'ssm_alpha')
        beta = sigmoid(beta)
        decay = np.exp(self.w('ssm_a') * np.log1p(np.exp(alpha + self.w('ssm_dt.bias'))))
        state, out = np.zeros((values, dim, dim)), np.zeros((n, values, dim))
        for t in range(n):
            state *= decay[t][:, None, None]
            new = (v[t] - np.einsum('hk,hkv->hv', k[t][of], state)) * beta[t][:, None]
            state += k[t][of][:, :, None] * new[:, None]
            out[t] = np.einsum('hk,hkv->hv', q[t][of] / np.sqrt(dim), state)
        gate = sigmoid if self.arch == 'qwen4exp' else silu
        return self.product((self.norm(out, self.w('ssm_norm.weight')) * gate(z.reshape(n, values, dim))).reshape(n, -1), 'ssm_out')

    def mamba(self, h):
        """The state space of Mamba-2, token by token."""
        n, dim, groups, heads, taps, inner = len(h), *(self.key('ssm.' + x) for x in ('state_size', 'group_count', 'time_step_rank', 'conv_kernel', 'inner_size'))
        z, xbc, dt = np.split(self.product(h, 'ssm_in'), [inner, 2 * inner + 2 * groups * dim], axis=1)
        rows = np.vstack([np.zeros((taps - 1, xbc.shape[1])), xbc])
        y = silu(sum(rows[t:t + n] * self.w('ssm_conv1d.weight')[:, t] for t in range(taps)) + self.w('ssm_conv1d.bias'))
        x, b, c = np.split(y, [inner, inner + groups * dim], axis=1)
        x, b, c = x.reshape(n, heads, -1), b.reshape(n, groups, dim), c.reshape(n, groups, dim)
        of = np.arange(heads) // (heads // groups)
        dt = np.log1p(np.exp(dt + self.w('ssm_dt.bias')))
        state, out = np.zeros((heads, x.shape[2], dim)), np.zeros_like(x)
        for t in range(n):
            state *= np.exp(dt[t] * self.w('ssm_a')[:, 0])[:, None, None]
            state += (x[t] * dt[t][:, None])[:, :, None] * b[t][of][:, None]
            out[t] = np.einsum('hpn,hn->hp', state, c[t][of]) + self.w('ssm_d') * x[t]
        out = (out.reshape(n, -1) * silu(z)).reshape(n, groups, -1)
        return self.product((self.norm(out, self.w('ssm_norm.weight'))).reshape(n, -1), 'ssm_out')

    def gated_conv(self, h):
        b, c, x = np.split(self.product(h, 'shortconv.in_proj'), 3, axis=1)
        taps = self.key('shortconv.l_cache')
        rows = np.vstack([np.zeros((taps - 1, b.shape[1])), b * x])
        y = c * sum(rows[t:t + len(h)] * self.w('shortconv.conv.weight')[:, t] for t in range(taps))
        return self.product(y, 'shortconv.out_proj')

    def expert(self, e, x):
        bias = lambda name: self.w(name + '.bias')[e] if self.has(name + '.bias') else 0
        if self.arch in ONE_PART:
            return self.w('ffn_down_exps.weight')[e] @ relu2(self.w('ffn_up_exps.weight')[e] @ x)
        if self.has('ffn_gate_up_exps.weight'):
            gate, up = np.split(self.w('ffn_gate_up_exps.weight')[e] @ x, 2)
        else:
            gate, up = (self.w(n + '.weight')[e] @ x * self.scale(n)[e] + bias(n) for n in ('ffn_gate_exps', 'ffn_up_exps'))
        if self.arch == 'gpt-oss':
            gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
            inner = gate * sigmoid(1.702 * gate) * (up + 1)
        else:
            inner = (gelu if self.arch in GELU else silu)(gate) * up
        return self.w('ffn_down_exps.weight')[e] @ inner * self.scale('ffn_down_exps')[e] + bias('ffn_down_exps')

    def experts(self, h, router_in=None):
        used = self.key('expert_used_count')
        logits = self.product(h, 'ffn_gate_inp') if router_in is None else router_in @ self.w('ffn_gate_inp.weight').T
        score = sigmoid(logits) if self.key('expert_gating_func') == 2 or self.arch in ('glm4moe', 'minimax-m2', 'lfm2moe', 'nemotron_h_moe') else softmax(logits)
        choice = score + (self.w('exp_probs_b.bias') if self.has('exp_probs_b.bias') else 0)
        groups = self.key('expert_group_count', 1)
        if groups > 1:  # only experts of the best groups
            parts = np.sort(choice.reshape(len(h), groups, -1), axis=2)
            best = parts[..., -2:].sum(2) if self.key('expert_gating_func') == 2 else parts[..., -1]
            rank = np.argsort(np.argsort(-best, axis=1, kind='stable'), axis=1)
            out = np.repeat(rank >= self.key('expert_group_used_count'), choice.shape[1] // groups, axis=1)
            choice = np.where(out, -np.inf, choice)
        latent = self.has('ffn_latent_down.weight')
        inner = self.product(h, 'ffn_latent_down') if latent else h
        out = np.zeros_like(inner)
        for t, x in enumerate(inner):
            top = np.argsort(-choice[t], kind='stable')[:used]
            weights = score[t, top] / (score[t, top].sum() if self.key('expert_weights_norm', self.arch not in ('qwen2moe', 'deepseek2')) else 1)
            for e, weight in zip(top, weights * (self.key('expert_weights_scale', 0) or 1)):
                out[t] += weight * self.expert(e, x)
        out = self.product(out, 'ffn_latent_up') if latent else out
        if self.arch in ONE_PART:
            return out + self.product(relu2(self.product(h, 'ffn_up_shexp')), 'ffn_down_shexp')
        if self.has('ffn_up_shexp.weight'):
            shared = self.product(silu(self.product(h, 'ffn_gate_shexp')) * self.product(h, 'ffn_up_shexp'), 'ffn_down_shexp')
            out += shared * (sigmoid(h @ self.w('ffn_gate_inp_shexp.weight'))[:, None] if self.has('ffn_gate_inp_shexp.weight') else 1)
        return out

    def feed_forward(self, h):
        return self.experts(h) if self.has('ffn_gate_inp.weight') else self.dense(h)

    def dense(self, h):
        up = self.product(h, 'ffn_up')
        if self.arch in ONE_PART:
            return self.product(relu2(up), 'ffn_down')
        gate, up = (self.product(h, 'ffn_gate'), up) if self.has('ffn_gate.weight') else np.split(up, 2, axis=1)
        return self.product((gelu if self.arch in GELU else silu)(gate) * up, 'ffn_down')

    def mix(self, x, stem):
        """Of streams [tokens][streams][width] what a part of a layer reads, and by what each stream takes the part's output."""
        t = lambda name: self.tensors['%s_%s.weight' % (stem, name)]
        n, count, width = x.shape
        normed = self.norm(x, t('norm').reshape(count, width))
        flat = normed.reshape(n, -1)
        gates = sigmoid(silu(flat @ t('down').T / count) @ t('up').T).reshape(x.shape)
        by = 2 * sigmoid(flat @ t('inject').T / count) if stem + '_inject.weight' in self.tensors else None
        return (gates * normed).mean(1), by

    def streams_layer(self, x, i, ids):
        self.layer = 'blk.%d' % i
        x = x + self.ngrams(x, ids) if i in self.key('ple.layers', []) else x
        h, by = self.mix(x, self.layer + '.hc_attn')
        x = x + (self.delta(h) if self.has('ssm_a') else self.attention(h, i))[:, None] * by[:, :, None]
        h, by = self.mix(x, self.layer + '.hc_ffn')
        return x + self.experts(h)[:, None] * by[:, :, None]

    def layer_of(self, x, i, residual):
        self.layer = 'blk.%d' % i
        h = self.norm(x, self.w('attn_norm.weight')) if self.has('attn_norm.weight') else x
        if self.arch in ONE_PART and self.has('post_attention_norm.weight'):  # the MTP head
            x = x + self.attention(h, i)
            return x + self.feed_forward(self.norm(x, self.w('post_attention_norm.weight')))
        if self.arch in ONE_PART:
            return x + (self.mamba(h) if self.has('ssm_d') else self.attention(h, i) if self.has('attn_q.weight') else self.feed_forward(h))
        out = self.latent(h) if self.has('attn_kv_a_mqa.weight') else self.mamba(h) if self.has('ssm_d') else self.delta(h) if self.has('ssm_a') else self.gated_conv(h) if self.has('shortconv.conv.weight') else self.attention(h, i)
        if self.arch == 'cohere2':  # side by side
            return x + out + self.feed_forward(h)
        x = x + residual * (self.norm(out, self.w('post_attention_norm.weight')) if self.arch in POST_NORMS else out)
        late = 'ffn_norm.weight' if self.arch in POST_NORMS or self.has('ffn_norm.weight') else 'post_attention_norm.weight'
        if self.has('post_ffw_norm_1.weight'):  # dense and experts side by side
            out = self.norm(self.dense(self.norm(x, self.w('ffn_norm.weight'))), self.w('post_ffw_norm_1.weight'))
            router_in = self.norm(x, self.w('ffn_gate_inp.scale') / np.sqrt(x.shape[1]))
            out = out + self.norm(self.experts(self.norm(x, self.w('pre_ffw_norm_2.weight')), router_in), self.w('post_ffw_norm_2.weight'))
        else:
            out = self.feed_forward(self.norm(x, self.w(late)) if self.has(late) else x)
        x = x + residual * (self.norm(out, self.w('post_ffw_norm.weight')) if self.arch in POST_NORMS else out)
        if self.has('inp_gate.weight'):  # the layer's embedding
            gated = gelu(self.product(x, 'inp_gate')) * self.layer_in[:, i]
            x = x + self.norm(self.product(gated, 'proj'), self.w('post_norm.weight'))
        return x * self.w('layer_output_scale.weight')[0] if self.has('layer_output_scale.weight') else x

    def streams(self, ids):
        x, self.kept = np.repeat(self.tensors['token_embd.weight'][ids][:, None], self.key('hyper_connection.count'), axis=1), {}
        for i in range(self.key('block_count') - self.key('nextn_predict_layers', 0)):
            x = self.streams_layer(x, i, ids)
        return x

    def states(self, ids):
        """Behind the final norm."""
        if self.key('hyper_connection.count'):
            return self.mix(self.streams(ids), 'output_hc')[0]
        scale = np.sqrt(self.key('embedding_length')) if self.arch in GELU else self.key('embedding_scale', 1.0)
        x, residual = self.tensors['token_embd.weight'][ids] * scale, self.key('residual_scale', 1.0)
        self.kept, width = {}, self.key('embedding_length_per_layer_input', 0)
        if 'per_layer_model_proj.weight' in self.tensors:
            parts = lambda y: y.reshape(len(ids), -1, width)
            product = parts(x @ self.tensors['per_layer_model_proj.weight'].T / np.sqrt(x.shape[1]))
            own = parts(self.tensors['per_layer_token_embd.weight'][ids] * np.sqrt(width))
            self.layer_in = (self.norm(product, self.tensors['per_layer_proj_norm.weight']) + own) / np.sqrt(2)
        for i in range(self.key('block_count') - self.key('nextn_predict_layers', 0)):
            x = self.layer_of(x, i, residual)
        return self.norm(x, self.tensors['token_embd_norm.weight' if self.arch.startswith('lfm2') else 'output_norm.weight'])

    def head(self, states):
        out = self.tensors.get('output.weight', self.tensors['token_embd.weight'])
        scale = self.key('logit_scale', 1.0)
        logits = states @ out.T * self.tensors.get('output.scale', np.ones(1))[0] * (scale if self.arch == 'cohere2' else 1 / scale)
        return self.capped(logits, 'final_logit_softcapping', 30)

    def logits(self, ids):
        return self.head(self.states(ids))

    def vector(self, ids):
        """The embedding: the mean of the states (pooling_type 1) or the last one, through the dense modules, of length 1."""
        states = self.states(ids)
        v = states.mean(0) if self.key('pooling_type') == 1 else states[-1]
        for name in ('dense_2.weight', 'dense_3.weight'):
            v = self.tensors[name] @ v if name in self.tensors else v
        return v / np.sqrt((v * v).sum())

    def vectors(self, ids):
        """Of every beginning of ids."""
        return np.array([self.vector(ids[:n]) for n in range(1, len(ids) + 1)])

    def guess(self, ids, n):
        """n tokens that the block of nextn guesses behind ids. Its input at place i: the trunk's state there, and the
        embedding of the token at i + 1; a guess is fed back with the block's own state behind its norm."""
        block = 'blk.%d' % (self.key('block_count') - 1)
        t = lambda name: self.tensors['%s.nextn.%s.weight' % (block, name)]
        states, ids = self.states(ids), list(ids)
        for _ in range(n):
            embedding = self.tensors['token_embd.weight'][ids[1:]]
            pairs = np.hstack([self.norm(embedding, t('enorm')), self.norm(states[:len(ids) - 1], t('hnorm'))])
            x = self.layer_of(pairs @ t('eh_proj').T * self.tensors.get(block + '.nextn.eh_proj.scale', [1])[0], self.key('block_count') - 1, 1.0)
            out = self.norm(x, t('shared_head_norm'))
            states = np.vstack([states[:len(ids) - 1], out[-1:]])
            ids.append(int(self.head(out[-1]).argmax()))
        return ids[-n:]

    def guess_streams(self, ids, n):
        """The same with streams: each of them meets the embedding, and they are the block's own state."""
        last = self.key('block_count') - 1
        t = lambda name: self.tensors['blk.%d.nextn.%s.weight' % (last, name)]
        x, ids = self.streams(ids), list(ids)
        for _ in range(n):
            h = self.norm(x[:len(ids) - 1], t('hnorm').reshape(x.shape[1:]))
            e = self.norm(self.tensors['token_embd.weight'][ids[1:]], t('enorm'))
            pairs = np.concatenate([np.repeat(e[:, None], x.shape[1], axis=1), h], axis=2)
            y = self.streams_layer(pairs @ t('eh_proj').T, last, ids)
            x = np.vstack([x[:len(ids) - 1], y[-1:]])
            ids.append(int(self.head(self.mix(y[-1:], 'blk.%d.nextn.hc_head' % last)[0]).argmax()))
        return ids[-n:]

    def guesses(self, ids, new, n):
        """What greedy generation appends to ids, each new token followed by n guesses behind it."""
        ids, rows = list(ids), []
        for _ in range(new):
            ids.append(int(self.logits(ids)[-1].argmax()))
            rows.append([ids[-1]] + (self.guess_streams if self.key('hyper_connection.count') else self.guess)(ids, n))
        return rows


def reference(path, ids, context):
    """Of every position the logits; of a model with a pooling type the embedding of the text up to there."""
    m = Model(path, context)
    return m.vectors(ids) if m.key('pooling_type') else m.logits(ids)


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    reference(sys.argv[1], [int(x) for x in open(sys.argv[2]).read().split()], 256).astype('<f4').tofile(sys.argv[3])
