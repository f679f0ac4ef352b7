"""Patches for modded-nanogpt's programs to run on one card and on our corpus. Used by modded.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 4  # added lines to print; this file has all of them


@dataclass(frozen=True, slots=True)
class Patch:
    why: str
    old: str
    new: str
    count: int = 1  # how often `old` occurs
    file: str = "train_gpt.py"


def patched(text: str, patches: Sequence[Patch]) -> str:
    """The text with all patches applied. A program that we do not know is refused."""
    for each in patches:
        if (found := text.count(each.old)) != each.count:
            raise ValueError(f"{each.file}: {each.why}: {each.old!r} occurs {found} times, not {each.count}")
        text = text.replace(each.old, each.new)
    return text


def described(patches: Sequence[Patch]) -> str:
    """The changes in readable form."""
    lines = []
    for each in patches:
        lines.append(f"  {each.file}: {each.why}")
        lines += [f"    - {line}" for line in each.old.strip().splitlines()]
        lines += [f"    + {line}" for line in each.new.strip().splitlines()[:_SHOWN]]
    return "\n".join(lines)


# Runs after the last evaluation. Windows are separated like documents; 262,144 tokens at a time, so that nothing is
# recompiled. In their forward pass, the first token of a window sees what the first of a document sees.
_JUDGED = """
import json, numpy
def judged():
    ended = time.time()
    windows = torch.from_numpy(numpy.load("windows.npy").astype("int32"))
    length, at_once = windows.size(1) - 1, 262144 // (windows.size(1) - 1)
    found = []
    model.eval()
    with torch.no_grad():
        for first in range(0, len(windows), at_once):
            part = windows[torch.arange(first, first + at_once) % len(windows)]
            tokens, targets = part[:, :-1].contiguous(), part[:, 1:].reshape(-1).long().cuda()
            found += losses_of(tokens, targets, length).view(at_once, length).double().mean(1).tolist()
    found = dict(ended=ended, peak_bytes=peak_bytes, losses=found[:len(windows)])
    with open("found.json", "w") as file:
        json.dump(found, file)
judged()
"""
_LOSSES_27 = """
def losses_of(tokens, targets, length):
    tokens[:, 0] += 1 << 20
    return model(tokens.view(-1).cuda(), targets, get_window_size_blocks(train_steps))
"""
_LOSSES_NEWEST = """
def losses_of(tokens, targets, length):
    tokens = tokens.view(-1)
    starts = torch.nonzero((tokens == BOS_ID) | (torch.arange(len(tokens)) % length == 0))[1:, 0]
    most = next_multiple_of_n(len(tokens) // 300, n=128)
    documents = torch.full((max(most, len(starts) + 2),), len(tokens), dtype=torch.int32)
    documents[0] = 0
    documents[1:len(starts) + 1] = starts
    arguments = (targets, documents.cuda(), get_bigram_hash(tokens).cuda(), training_manager.get_forward_args())
    return model(tokens.cuda(), *arguments)
"""
_ATTENTION = """
from torch.nn.attention.varlen import varlen_attn
class flash_attn_interface:
    @staticmethod
    def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal, softmax_scale,
                               window_size):
        return varlen_attn(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, scale=softmax_scale,
                           window_size=window_size)
"""
_PEAK = 'print0(f"peak memory allocated: '
_LAST = "        # stop the clock\n        torch.cuda.synchronize()\n"
_MODEL = "\nmodel: nn.Module = GPT("
_DATA = 'os.environ["DATA_PATH"]'


def _common(val_every: str, losses: str, seed: int) -> list[Patch]:
    return [
        Patch("set a seed: it has none", _MODEL, f"\ntorch.manual_seed({seed}){_MODEL}"),
        Patch("less validation data", "= 10485760 #", "= 2097152 #"),
        Patch("evaluate only at the end", f"= {val_every}#", "= 0 #"),
        Patch(
            "record the peak memory of training, before the evaluation",
            _LAST,
            _LAST + "        peak_bytes = torch.cuda.max_memory_allocated()\n",
        ),
        Patch("evaluate our windows at the end", _PEAK, losses.lstrip() + _JUDGED + _PEAK),
    ]


def _accumulation(accum: int) -> Patch:
    line = "\ngrad_accum_steps = 8 // world_size"
    return Patch(f"{accum} micro-batches per step instead of 8", line, f"\ngrad_accum_steps = {accum}")


def record_27_patches(steps: int, accum: int, seed: int) -> tuple[Patch, ...]:
    """2025-07-18, 2.82 minutes on 8 x H100, with FlexAttention, which is torch's own."""
    of_docs = "docs = (input_seq == 50256).cumsum(0)"
    window = "token_window = grad_accum_steps * (2 * batch_size if align_to_bos else batch_size)"
    ahead = "token_window = 16 * batch_size if align_to_bos else grad_accum_steps * batch_size"
    smaller = [_accumulation(accum), Patch("look as far ahead as with 8 micro-batches", window, ahead)]
    warmup = max(1, round(300 * steps / 1750))
    return (
        *_common("125 ", _LOSSES_27, seed),
        *(smaller if accum != 8 else ()),
        Patch("number of steps", "num_iterations = 1750 #", f"num_iterations = {steps} #"),
        Patch("momentum warm-up, scaled to the steps", "frac = min(step / 300, 1)", f"frac = min(step / {warmup}, 1)"),
        Patch(
            "a marked token starts a window",
            "        assert input_seq.ndim == 1\n",
            "        assert input_seq.ndim == 1\n        marked, input_seq = input_seq, input_seq & 0xFFFFF\n",
        ),
        Patch("as above", "self.create_blockmasks(input_seq, ", "self.create_blockmasks(marked, "),
        Patch("as above", of_docs, "docs = ((input_seq == 50256) | (input_seq > 0xFFFFF)).cumsum(0)"),
        Patch("one loss per token", '"sum" if self.training else "mean"', '"sum" if self.training else "none"'),
        Patch(
            "as above",
            "val_loss += model(inputs, targets, get_window_size_blocks(step))",
            "val_loss += model(inputs, targets, get_window_size_blocks(step)).mean()",
        ),
    )


def newest_patches(scheduled: int, extension: int, accum: int, seed: int) -> tuple[Patch, ...]:
    """2026-07-17, 1.23 minutes on 8 x H100, with FlashAttention 3, which has to be downloaded."""
    share = (scheduled + extension) / 1285
    momentum = f"muon_warmup_steps={max(1, round(300 * share))}, muon_cooldown_steps={max(1, round(50 * share))}"
    hub = "flash_attn_interface = get_kernel('kernels-community/flash-attn3', version=1).flash_attn_interface\n"
    read = f'import json\nvocabulary = json.load(open(os.path.join({_DATA}, "vocabulary.json")))\n'
    ours = "{bytes.fromhex(letters): number for letters, number in vocabulary.items()}"
    smaller = [
        _accumulation(accum),
        Patch(
            "keep the gradient scale of 8 micro-batches, which is compiled in",
            "grad_scale = 1 / grad_accum_steps #",
            "grad_scale = 1 / 8 #",
        ),
        *(
            Patch("batch size, to match", f"batch_size={n} * 2048 * 8,", f"batch_size={n} * 2048 * {accum},", count)
            for n, count in ((8, 1), (16, 1), (24, 2))
        ),
        Patch("validation batch size, to match", "4 * 64 * 1024 * 8\n", f"4 * 64 * 1024 * {accum}\n"),
    ]
    return (
        *_common("250  ", _LOSSES_NEWEST, seed),
        *(smaller if accum != 8 else ()),
        Patch(
            "number of steps", "num_scheduled_iterations: int = 1270 ", f"num_scheduled_iterations: int = {scheduled} "
        ),
        Patch("as above", "num_extension_iterations: int = 15 ", f"num_extension_iterations: int = {extension} "),
        Patch("momentum schedule, scaled to the steps", "muon_warmup_steps=300, muon_cooldown_steps=50", momentum),
        Patch("torch's attention instead of one from a hub", hub, _ATTENTION),
        Patch("as above", "from kernels import get_kernel\n", ""),
        Patch(
            "create this tensor earlier: torch 2.11 does not allow it during compilation",
            "_dummy_f32 = None  # lazily initialized",
            '_dummy_f32 = torch.zeros(1, dtype=torch.float32, device="cuda")  #',
            file="triton_kernels.py",
        ),
        Patch(
            "align the scales to 16 bytes, as this cuBLAS requires",
            "scale_a=activation_scale,\n                scale_b=W2_scale,",
            "scale_a=torch.cat((activation_scale,) * 2)[:1],\n                scale_b=torch.cat((W2_scale,) * 2)[:1],",
            file="triton_kernels.py",
        ),
        Patch("our vocabulary instead of one from the web", "import tiktoken\n", read),
        Patch("as above", '\ntiktoken.get_encoding("gpt2")\n', f"\nvocabulary = {ours}\n"),
        Patch("as above", 'byte_to_id = tiktoken.get_encoding("gpt2")._mergeable_ranks', "byte_to_id = vocabulary"),
        Patch(
            "no evaluation during warm-up",
            "    model.eval()\n    with torch.no_grad():\n"
            "        inputs, targets, cum_seqlens, bigram_inputs, _ = next(val_loader)\n"
            "        model(inputs, targets, cum_seqlens, bigram_inputs, training_manager.get_forward_args()).mean()\n"
            "    model.train()\n    for idx in range(grad_accum_steps):\n        send_args",
            "    for idx in range(grad_accum_steps):\n        send_args",
        ),
        Patch(
            "use the rest of a long document next instead of skipping it: our corpus is small",
            "cur = self.bos_idx[idx]\n",
            'cur = max(self.bos_idx[idx], getattr(self, "rest", 0))\n',
        ),
        Patch(
            "as above",
            "                cur_len += end - cur\n",
            "                cur_len += end - cur\n"
            "                if end < (self.bos_idx[idx] if idx < n else self.size):\n"
            "                    self.rest, idx = end, idx - 1\n",
        ),
    )
