"""The llama architecture as GGUF means it: RoPE rotates the pairs (2i, 2i+1), so q and k need no permutation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

# at_start: of five rows of a batch, how many begin with a document and not anywhere.
SHAPES = {
    "demo": dict(vocab=2048, dim=256, layers=8, heads=8, kv_heads=2, head_dim=32, ffn=640, context=1024, eps=1e-5, theta=10000.0,
                 at_start=4),
    # Rows of all matrices are multiples of 256, so that K formats can take them.
    "manuals": dict(vocab=8192, dim=512, layers=8, heads=8, kv_heads=4, head_dim=64, ffn=1536, context=2048, eps=1e-5, theta=10000.0,
                    at_start=1),
    # To try the scripts.
    "trial": dict(vocab=8192, dim=64, layers=2, heads=2, kv_heads=1, head_dim=32, ffn=128, context=64, eps=1e-5, theta=10000.0, at_start=1),
}
SHAPE = SHAPES["demo"]


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = x if x.dtype == torch.float64 else x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


def rope(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.attn_norm, self.ffn_norm = Norm(s["dim"], s["eps"]), Norm(s["dim"], s["eps"])
        self.attn_q = lin(s["dim"], s["heads"] * s["head_dim"])
        self.attn_k = lin(s["dim"], s["kv_heads"] * s["head_dim"])
        self.attn_v = lin(s["dim"], s["kv_heads"] * s["head_dim"])
        self.attn_output = lin(s["heads"] * s["head_dim"], s["dim"])
        self.ffn_gate, self.ffn_up, self.ffn_down = lin(s["dim"], s["ffn"]), lin(s["dim"], s["ffn"]), lin(s["ffn"], s["dim"])

    def forward(self, x, cos, sin):
        s, (n, t, _) = self.s, x.shape
        h = self.attn_norm(x)
        split = lambda y, heads: y.view(n, t, heads, s["head_dim"]).transpose(1, 2)
        v = split(self.attn_v(h), s["kv_heads"])
        q = rope(split(self.attn_q(h), s["heads"]), cos, sin).to(v.dtype)
        k = rope(split(self.attn_k(h), s["kv_heads"]), cos, sin).to(v.dtype)
        group = s["heads"] // s["kv_heads"]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(y.transpose(1, 2).reshape(n, t, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    def __init__(self, shape=SHAPE):
        super().__init__()
        s = self.s = shape
        self.token_embd = nn.Embedding(s["vocab"], s["dim"])
        self.blk = nn.ModuleList(Layer(s) for _ in range(s["layers"]))
        self.output_norm = Norm(s["dim"], s["eps"])
        freq = s["theta"] ** (-torch.arange(0, s["head_dim"], 2, dtype=torch.float64) / s["head_dim"])
        angle = torch.outer(torch.arange(s["context"], dtype=torch.float64), freq)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                small = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(p, std=.02 / (2 * s["layers"]) ** .5 if small else .02)

    def forward(self, ids):
        x = self.token_embd(ids)
        kind = torch.float64 if x.dtype == torch.float64 else torch.float32
        cos, sin = self.cos[:ids.shape[1]].to(kind), self.sin[:ids.shape[1]].to(kind)
        for layer in self.blk:
            x = layer(x, cos, sin)
        return F.linear(self.output_norm(x), self.token_embd.weight)     # tied


@torch.no_grad()
def write_on(model, ids, count, temperatures, generator=None):
    """Continue a batch of equally long prompts, each row at its own temperature (0: greedy); no cache, the model is small."""
    t = torch.tensor(temperatures, device=ids.device)[:, None]
    for _ in range(count):
        logits = model(ids[:, -model.s["context"]:])[:, -1].float()
        drawn = torch.multinomial(F.softmax(logits / t.clamp(min=.1), -1), 1, generator=generator)
        ids = torch.cat((ids, torch.where(t > 0, drawn, logits.argmax(-1, keepdim=True))), 1)
    return ids
