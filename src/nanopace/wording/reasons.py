"""Why `nanopace recommend` chooses the value of each knob, and notes on its figures; for the codes of tune/."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, label, say, say_n

REASONS: Mapping[str, Sentence] = {
    "out_dir": say("checkpoints and the ledger go here"),
    "eval_interval": say_n(
        "{evaluations} evaluation over the run, in 1% of its time at most",
        "{evaluations} evaluations over the run, in 1% of its time at most",
        count="evaluations",
    ),
    "eval_iters": say("{eval_tokens} tokens per split: more precision would not help"),
    "eval_interval_short": say(
        "one evaluation at the end: {own_share} of such a short run, {nanogpt_share} with nanoGPT"
    ),
    "eval_iters_short": say("{eval_tokens} tokens per split: more would take too much time"),
    "eval_interval_overfitting": say_n(
        "{evaluations} evaluation over the run, to see when it overfits: {own_share} of the time, {nanogpt_share} "
        "with nanoGPT",
        "{evaluations} evaluations over the run, to see when it overfits: {own_share} of the time, {nanogpt_share} "
        "with nanoGPT",
        count="evaluations",
    ),
    "always_save_checkpoint": say("keeps the checkpoint with the lowest validation loss"),
    "log_interval": say("divides eval_interval, so the log shows every evaluation"),
    "dataset": say("the folder under data/; {command} creates it")
    | say("the folder under data/; nanopace prepare creates it"),
    "accumulation": say("{tokens_per_step} tokens per step, however small the micro-batch"),
    "batch_size": say("the fastest that leaves a tenth of the memory free"),
    "batch_size_shared": say(
        "the fastest that nanoGPT can hold as well; {larger} should gain {gain_share} with nanopace"
    ),
    "batch_size_untimed": say("fits with room to spare; its speed is unknown"),
    "batch_size_tight": say("just fits, and it is the smallest possible"),
    "batch_size_host": say("as many as useful with the host's memory, without which the model does not fit"),
    "batch_size_released": say("a whole step at once: the model fits only if no gradients are kept"),
    "block_size": say("tokens the model sees at once"),
    "shape": say("{weights} parameters in all"),
    "heads": say("{width} wide each"),
    "vocab_size": say("as requested"),
    "dropout": say("hardly any token is seen twice"),
    "dropout_few": say("text read {epochs} times is almost as good as new"),
    "dropout_unknown": say("none, unless the text is read more than four times"),
    "dropout_repeated": say("text read {epochs} times needs 0.1 or more, which our own kernels do not support"),
    "dropout_overfitting": say("nanoGPT's value for Shakespeare: without it, the model overfits {dataset} sooner"),
    "bias": say("slightly faster without, and no worse"),
    "learning_rate": say("GPT-3's value for {weights} parameters, interpolated between the sizes in its table"),
    "learning_rate_small": say("smaller models tolerate more: {weights} parameters are below GPT-3's table"),
    "min_lr": say("a tenth of learning_rate"),
    "max_iters": say("{tokens} tokens, as requested"),
    "max_iters_chinchilla": say(
        "{tokens} tokens: 20 per parameter, the lowest loss for the compute (Hoffmann et al. 2022)"
    ),
    "max_iters_data": say(
        "{tokens} tokens: 16 passes over {dataset}; beyond that, little is left to learn (Muennighoff et al. 2023)"
    ),
    "lr_decay_iters": say("the learning rate is lowest where the run ends"),
    "warmup_iters": say("{warmup_tokens} tokens: 1/25 of the run, and GPT-3's 375M at most"),
    "weight_decay": say("same as GPT-3 and nanoGPT"),
    "beta2": say("same as GPT-3, for large batches"),
    "beta2_few_tokens": say("longer averaging, because a step has only {tokens_per_step} tokens"),
    "grad_clip": say("against the odd bad batch"),
    "dtype": say("the card supports it, and it needs no loss scaling"),
    "dtype_half": say("the card does not support bfloat16; losses are scaled"),
    "dtype_single": say("the card is slow in all shorter formats"),
    "dtype_apple": say("nothing is certain to be faster there"),
    "device_apple": say("Apple's GPU"),
    "compile_apple": say("torch.compile targets other GPUs"),
    "compile_old": say("torch.compile does not support a card this old"),
    "save_interval": say("at most {lost_s} of work is lost if the run stops; written in the background")
    | say("with every evaluation; written in the background"),
    "memory": say("saves only as much memory as needed, here: {steps}"),
    "recipe": say(
        "same as nanoGPT; 'fast' should reach the same loss in about {fast_about_s} (extrapolated), but is not a GPT-2"
    )
    | say("same as nanoGPT; 'fast' reached the same loss sooner at GPT-2's size, but is not a GPT-2"),
}

NOTES: Mapping[str, Sentence] = {
    "speed": say(
        "Speed: computed from the card's peak and memory bandwidth, and the shares of them measured on {seen}."
    ),
    "speed_few": say(
        "Speed: computed from the card's peak and memory bandwidth, and the shares of them measured on only a few "
        "cards of this kind ({seen}), so the range is wide."
    ),
    "unmeasured": say(
        "Speed: computed from the card's peak and memory bandwidth. No card of this kind was measured, so the range is "
        "wide."
    ),
    "memory": say("Memory: computed; the formula was checked only on an H200."),
    "peak_unknown": say(
        "This card's bf16 peak is unknown, and so are its speed and times; pass --peak-tflops X to set it."
    ),
    "no_apple": say("Nobody has measured how fast Apple's GPUs train: speed and times are unknown."),
    "figures_fp16": say("This card has no bf16: these figures are for float16."),
    "figures_fp32": say("This card has no tensor cores: these figures are for float32."),
    "no_kernels": say(
        "Our own kernels do not run on this card: nanopace is as fast as nanoGPT there and fits as much."
    ),
    "no_kernels_dropout": say(
        "Our own kernels do not support dropout, so torch.compile's are used: nanopace is as fast as nanoGPT and "
        "fits as much."
    ),
    "kernels_unmeasured": say(
        "Our kernels were only measured on an H200. Their gain over nanoGPT here is computed; the range starts at no "
        "gain."
    ),
    "early_logs": say(
        "nanoGPT's logs up to May 2024 suggest only about {tokens_per_s} tokens/s on such a card, probably because "
        "torch was older."
    ),
    "nanogpt_smaller": say(
        "This micro-batch does not fit with nanoGPT: use batch_size={batch} and "
        "gradient_accumulation_steps={accumulation} there."
    ),
    "nanogpt_never": say("With nanoGPT, this model does not fit on this card at all."),
    "released": say(
        "No gradients are kept: each layer is updated in the backward pass and clipped by the part of the norm known "
        "by then. If memory runs out in a step, the run ends; --init_from=resume continues from its last checkpoint."
    ),
    "host_needed": say("The model fits only with {host_gib} GiB of the computer's own memory."),
    "host": say(
        "With the host's memory, the speed is computed for a bus with {bus_rate} GB/s in each direction (PCIe 4 x16); "
        "on such a card, it was not measured."
    ),
    "repeated": say("{passes} passes over {dataset} are worth {worth} passes over fresh text."),
    "overfits": say(
        "{passes} passes over {dataset} are worth {worth} passes over fresh text: beyond about 40, nothing more is "
        "learned and the model overfits. --tokens {enough} is enough: 16 passes, {iterations} steps."
    )
    | say(
        "{passes} passes over {dataset} are worth {worth} passes over fresh text: beyond about 40, nothing more is "
        "learned and the model overfits."
    ),
    "fine_tune": say(
        "{dataset} has {text_tokens} tokens, too few to train {model} from scratch. Fine-tuning makes the most of so "
        "little text: init_from=gpt2 with a learning rate of 3e-5 and a few passes, as in nanoGPT's "
        "config/finetune_shakespeare.py."
    ),
    "little_text": say(
        "{dataset} has {text_tokens} tokens, too few for {model}: it will overfit sooner or later. Use the "
        "checkpoint with the lowest validation loss."
    ),
    "long": say("That is long for one card: use fewer --tokens, a smaller --model, or several cards."),
    "long_alone": say("That is long for one card: use fewer --tokens or a smaller --model."),
    "fast": say(
        "--recipe=fast: extrapolated from runs of up to 3 minutes on Python source on an H200, where it reached "
        "nanoGPT's loss in 1/{most} to 1/{least} of the time; longer runs and other text were not compared. To try it, "
        "reduce max_iters to about a fifth."
    ),
    "fast_limits": say(
        "--recipe=fast is not a GPT-2: no ckpt.pt for nanoGPT, no fine-tuning of GPT-2's weights, no biases, and no "
        "FSDP, so each card must hold the whole model."
    ),
    "energy": say("Energy: the card alone at its board power, without the rest of the computer."),
    "energy_unknown": say("Energy: the board power of this card is not in the table."),
    "loss": say(
        "Loss: an estimate for web text with GPT-2's tokenizer, from two published scaling laws, corrected by real "
        "runs of 41M and 124M parameters on 2.4B to 10.5B tokens; other text shifts it."
    ),
    "loss_vocabulary": say("Final loss: unknown, since the scaling laws are for GPT-2's tokens."),
    "loss_passes": say("Final loss: unknown, since the scaling laws do not describe overfitting."),
    "loss_tokens": say(
        "Final loss: unknown, since the scaling laws hold from 100 million to 1.4 trillion tokens of text."
    ),
    "loss_parameters": say("Final loss: unknown, since the scaling laws hold from 7 million to 70 billion parameters."),
    "several": say(
        "Several cards share each step (DDP), through {link}. That was not measured: the range goes from fully "
        "overlapped communication to none overlapped. Our own kernels train on one card, so several use "
        "torch.compile's."
    ),
}

LINKS: Mapping[str, str] = {
    "nvlink": label("NVLink at 100 to 300 GB/s"),
    "host": label("host memory at 4 to 12 GB/s"),
}

# What each step of the memory ladder saves.
MEMORY_STEPS: Mapping[str, str] = {
    "activation": label("GELU output recomputed"),
    "hidden": label("MLP hidden layer recomputed"),
    "attention": label("attention recomputed"),
    "averages": label("AdamW averages in 16 bits"),
    "gradients": label("no gradients kept"),
    "host": label("averages and weights in host memory"),
    "host_gradients": label("also gradients in host memory"),
    "host_activations": label("also activations in host memory"),
    "host_weights": label("everything in host memory"),
}
