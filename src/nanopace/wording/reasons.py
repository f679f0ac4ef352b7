"""Why `nanopace recommend` chooses a knob's value, and what is to be known of its figures; for the codes of tune/."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, label, say, say_n

REASONS: Mapping[str, Sentence] = {
    "out_dir": say("checkpoints and the ledger go here"),
    "eval_interval": say_n(
        "{evaluations} evaluation over the run, within 1% of its time",
        "{evaluations} evaluations over the run, within 1% of its time",
        count="evaluations",
    ),
    "eval_iters": say("{eval_tokens} tokens of each split: as exact as is useful"),
    "eval_interval_short": say(
        "one evaluation at the end: it takes {own_share} of so short a run, with nanoGPT {nanogpt_share}"
    ),
    "eval_iters_short": say("{eval_tokens} tokens of each split: more would take too much of the time"),
    "eval_interval_overfitting": say_n(
        "{evaluations} evaluation over the run, to see when it overfits: {own_share} of the time, with nanoGPT "
        "{nanogpt_share}",
        "{evaluations} evaluations over the run, to see when it overfits: {own_share} of the time, with nanoGPT "
        "{nanogpt_share}",
        count="evaluations",
    ),
    "always_save_checkpoint": say("keeps the checkpoint with the lowest validation loss"),
    "log_interval": say("divides eval_interval, so that the log shows every evaluation"),
    "dataset": say("the folder under data/; {command} makes it")
    | say("the folder under data/; nanopace prepare makes it"),
    "accumulation": say("{tokens_per_step} tokens a step, however small a micro-batch is"),
    "batch_size": say(
        "the smallest within 2% of the fastest that fits; launching takes {launch_share} of the time, whatever its size"
    ),
    "batch_size_untimed": say("fits with room to spare; how fast it is, is unknown"),
    "batch_size_tight": say("just fits, and there is no smaller one"),
    "batch_size_released": say("a whole step at once: the model fits only where no gradients are kept"),
    "block_size": say("tokens that the model sees at once"),
    "shape": say("{weights} parameters in all"),
    "heads": say("{width} wide each"),
    "vocab_size": say("as asked for"),
    "dropout": say("hardly a token is seen twice"),
    "dropout_few": say("text that is read {epochs} times is almost as good as new"),
    "dropout_unknown": say("none, unless the text is read more than four times"),
    "dropout_repeated": say(
        "text that is read {epochs} times asks for 0.1 and more, which our own kernels do not take"
    ),
    "dropout_overfitting": say("nanoGPT's for Shakespeare: without it the model overfits {dataset} sooner"),
    "bias": say("a little faster without, and no worse"),
    "learning_rate": say("GPT-3's for {weights} parameters, between the sizes of its table"),
    "learning_rate_small": say("smaller models bear more: {weights} parameters are below GPT-3's table"),
    "min_lr": say("a tenth of the peak"),
    "max_iters": say("{tokens} tokens, as asked for"),
    "max_iters_chinchilla": say(
        "{tokens} tokens: 20 a parameter, the lowest loss for the arithmetic (Hoffmann et al. 2022)"
    ),
    "max_iters_data": say(
        "{tokens} tokens: 16 passes over {dataset}, beyond which little is left to learn (Muennighoff et al. 2023)"
    ),
    "lr_decay_iters": say("the rate is lowest where the run ends"),
    "warmup_iters": say("{warmup_tokens} tokens: a 25th of the run, and GPT-3's 375M at most"),
    "weight_decay": say("GPT-3's and nanoGPT's"),
    "beta2": say("GPT-3's, for large batches"),
    "beta2_few_tokens": say("a longer memory, since a step has only {tokens_per_step} tokens"),
    "grad_clip": say("against the odd bad batch"),
    "dtype": say("the card has it, and it needs no loss scaling"),
    "dtype_half": say("the card has no bfloat16; losses are scaled"),
    "dtype_single": say("the card is slow in everything shorter"),
    "dtype_apple": say("nothing is faster there for certain"),
    "device_apple": say("Apple's GPU"),
    "compile_apple": say("torch.compile is made for other GPUs"),
    "save_interval": say("at most {lost_s} of work are lost if the run stops; written in the background")
    | say("with every evaluation; written in the background"),
    "memory": say("takes as much of the ladder as it needs, here {steps}"),
    "recipe": say("as nanoGPT trains it; 'fast' reaches the same loss sooner, and is no GPT-2"),
}

NOTES: Mapping[str, Sentence] = {
    "unmeasured": say("No card of this kind was measured: the range of its speed is wide."),
    "peak_unknown": say(
        "The bf16 peak of this card is unknown, and so are its speed and times; --peak-tflops X gives one by hand."
    ),
    "no_bf16": say("This card has no bf16, in which our figures were measured: its speed and times are unknown."),
    "no_kernels": say(
        "Our own kernels do not run on this card: nanopace is as fast there as nanoGPT, and holds as much."
    ),
    "no_kernels_dropout": say(
        "Our own kernels do without dropout, so torch.compile's are taken: nanopace is as fast as nanoGPT, and holds "
        "as much."
    ),
    "kernels_unmeasured": say(
        "Our kernels were measured on an H200 alone. What they gain over nanoGPT here is computed; the range begins "
        "where they gain nothing."
    ),
    "nanogpt_smaller": say(
        "nanoGPT does not hold this micro-batch: there take batch_size={batch} and "
        "gradient_accumulation_steps={accumulation}."
    ),
    "nanogpt_never": say("nanoGPT does not hold this model on this card at all."),
    "released": say(
        "No gradients are kept: each layer is updated in the backward pass, and clipped by as much of the norm as is "
        "known by then. If memory fills in a step the run ends; --init_from=resume goes on from its last checkpoint."
    ),
    "repeated": say("{passes} passes over {dataset} are worth {worth} passes over fresh text."),
    "overfits": say(
        "{passes} passes over {dataset} are worth {worth} passes over fresh text: more than about 40 teach nothing, "
        "and the model will overfit. --tokens {enough} is enough: 16 passes, {iterations} steps."
    )
    | say(
        "{passes} passes over {dataset} are worth {worth} passes over fresh text: more than about 40 teach nothing, "
        "and the model will overfit."
    ),
    "fine_tune": say(
        "{dataset} has {text_tokens} tokens, too few for {model} from scratch. Fine-tuning makes the most of so little "
        "text: init_from=gpt2 with a learning rate of 3e-5 and a few passes, as nanoGPT's "
        "config/finetune_shakespeare.py does."
    ),
    "little_text": say(
        "{dataset} has {text_tokens} tokens, too few for {model}: it will overfit sooner or later. The checkpoint with "
        "the lowest validation loss is the one to use."
    ),
    "long": say("That is long for one card: fewer --tokens, a smaller --model, or several cards."),
    "long_alone": say("That is long for one card: fewer --tokens, or a smaller --model."),
    "energy": say("Energy: the card at its board power, without the rest of the computer."),
    "energy_unknown": say("Energy: the board power of this card is not in the table."),
    "loss": say(
        "Loss: an estimate for web text with GPT-2's tokenizer, by two published scaling laws and what real runs of "
        "41M and 124M parameters on 2.4B to 10.5B tokens add to them; other text shifts it."
    ),
    "loss_vocabulary": say("Loss at the end: unknown, since the scaling laws are for GPT-2's tokens."),
    "loss_passes": say("Loss at the end: unknown, since the scaling laws do not describe overfitting."),
    "loss_tokens": say(
        "Loss at the end: unknown, since the scaling laws hold from 100 million to 1.4 trillion tokens of text."
    ),
    "loss_parameters": say(
        "Loss at the end: unknown, since the scaling laws hold from 7 million to 70 billion parameters."
    ),
    "several": say(
        "Several cards share each step (DDP), through {link}. That was not measured: the range goes from all of the "
        "sending hidden behind the arithmetic to none. Our own kernels train on one card, so several run as "
        "torch.compile makes them."
    ),
}

LINKS: Mapping[str, str] = {
    "nvlink": label("NVLink at 100 to 300 GB/s"),
    "host": label("the host's memory at 4 to 12 GB/s"),
}
