"""`nanopace sample` as nanoGPT's sample.py is called: its README's commands, its flags, its config files."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import pytest
import torch

from nanopace.cli.commands import sample
from nanopace.cli.main import main
from nanopace.cli.ordered_flags import spelled_out
from nanopace.cli.sample_flags import KNOBS, read_sampling
from nanopace.corpus.tokenizers.tokenizer import chars, gpt2, train_bpe
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats.convert import convert
from nanopace.train.formats.nanogpt_checkpoint import save_nanogpt
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT, ModelShape

from .refused import refused

LETTERS = "\nabc"
SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=16, vocab_size=300, block_size=16)
SEPARATOR = "\n---------------\n"

# From the top of nanoGPT's sample.py. Its device and dtype are training's; ours are the fastest here.
DEFAULTS = {
    "init_from": "resume",
    "out_dir": "out",
    "start": "",
    "num_samples": 10,
    "max_new_tokens": 500,
    "temperature": 0.8,
    "top_k": 200,
    "seed": 1337,
    "device": "",
    "dtype": "float32",
    "compile": False,
}


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nanoGPT user's directory: a run, its data, and a downloaded GPT-2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(1)
    letters = ModelShape(n_layer=1, n_head=2, n_embd=16, vocab_size=len(LETTERS), block_size=16)
    for name in ("out", "out-shakespeare-char"):
        Path(name).mkdir()
        config = {"dataset": "shakespeare_char"}
        weights = Pretrained(path=Path(name), shape=letters, weights=GPT(letters).state_dict(), config=config)
        save_nanogpt(Path(name, "ckpt.pt"), weights)
    Path("data/shakespeare_char").mkdir(parents=True)
    stoi = {letter: number for number, letter in enumerate(LETTERS)}
    itos = {number: letter for letter, number in stoi.items()}
    with open("data/shakespeare_char/meta.pkl", "wb") as file:
        pickle.dump({"vocab_size": len(LETTERS), "itos": itos, "stoi": stoi}, file)
    write_weights(
        tmp_path / "ours", SHAPE, GPT(SHAPE).state_dict(), step=1, config={}, tokenizer=train_bpe(["the answer"], 280)
    )
    convert(tmp_path / "ours", tmp_path / "gpt2-xl", to="huggingface")
    return tmp_path


def samples(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["sample", *arguments]) == 0
    out: str = capsys.readouterr().out
    return out.removesuffix("\n").split(SEPARATOR)


def read(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    sample.add_arguments(parser)
    args = parser.parse_args([*spelled_out(arguments, sample.WORDS_ARE, parser)])
    read_sampling(args)
    return args


# --- the README ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_its_own_runs_write_ten_samples_of_500(capsys: pytest.CaptureFixture[str]) -> None:
    written = samples(capsys, "--out_dir=out-shakespeare-char", "--device=cpu")
    assert [len(each) for each in written] == [500] * 10
    assert set("".join(written)) <= set(LETTERS)
    assert len(set(written)) == 10


@pytest.mark.parametrize("command", [[], ["--out_dir=out-shakespeare-char"]])
def test_its_out_dir_or_the_one_that_is_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    written = samples(capsys, *command, "--max_new_tokens=9")  # to be quick
    assert [len(each) for each in written] == [9] * 10


def test_a_gpt2_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    start = "What is the answer to life, the universe, and everything?"
    written = samples(capsys, "--init_from=gpt2-xl", f"--start={start}", "--num_samples=5", "--max_new_tokens=100")
    assert len(written) == 5
    assert all(each.startswith(start) for each in written)
    (direct,) = samples(capsys, "gpt2-xl", f"--prompt={start}", "--num=1", "--max_new_tokens=100")
    assert direct == written[0]


def test_a_gpt2_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--init_from=gpt2-medium"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "gpt2-medium" in err


def test_a_prompt_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("prompt.txt").write_text("abcabc")
    (written,) = samples(capsys, "--start=FILE:prompt.txt", "--num_samples=1", "--max_new_tokens=4")
    assert written.startswith("abcabc")
    assert len(written) == 10


# --- flags and files -------------------------------------------------------------------------------------------------


def test_names_and_defaults_are_nanogpt_s() -> None:
    assert {name: knob.default for name, knob in KNOBS.items()} == DEFAULTS
    args = read()
    assert {name: getattr(args, name) for name in DEFAULTS} == DEFAULTS
    assert args.model is None


def test_flags_are_read_as_nanogpt_reads_them() -> None:
    args = read("--start='ab'", "--temperature=1", "--top_k", "5", "--compile=True", "--dtype=float16", "--seed=3")
    assert (args.start, args.temperature, args.top_k, args.compile) == ("ab", 1.0, 5, True)
    assert (args.dtype, args.seed) == ("float16", 3)
    assert read("--start=7").start == "7"
    assert read("--prompt=").start == ""


def test_the_later_one_wins() -> None:
    Path("a.py").write_text("num_samples = 2\nbatch_size = 8\nout_dir = 'a'\nstart = 'x'\ndevice = 'cpu'\n")
    Path("b.py").write_text("num_samples = 3\n")
    args = read("a.py", "b.py", "--start=y")
    assert (args.num_samples, args.start, args.out_dir, args.device) == (3, "y", "a", "cpu")
    assert read("--num_samples=4", "a.py").num_samples == 2
    assert read("b.py", "a.py").num_samples == 2
    assert read("a.py", "--num_samples", "4", "b.py").num_samples == 3
    assert not hasattr(args, "batch_size")


def test_a_model_beside_config_files() -> None:
    Path("a.py").write_text("num_samples = 2\nout_dir = 'elsewhere'\n")
    args = read("gpt2-xl", "a.py")
    assert (args.model, args.num_samples) == ("gpt2-xl", 2)
    assert read("a.py", "out").model == "out"


def test_a_config_file_is_never_run() -> None:
    Path("a.py").write_text("num_samples = 2\nseed = open('mark', 'w')\n")
    assert main(["sample", "a.py"]) == 2
    assert not Path("mark").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--num_samples=0"], "--num_samples: must be int >= 1, not '0'"),
        (["--num_samples=many"], "--num_samples: must be int >= 1, not 'many'"),
        (["--max_new_tokens=1.5"], "--max_new_tokens: must be int >= 1, not '1.5'"),
        (["--compile=maybe"], "--compile: must be True/False, not 'maybe'"),
        (["--dtype=float8"], "--dtype must be one of float32, bfloat16, float16, not 'float8'"),
        (["bad.py"], "bad.py: top_k must be int >= 0, not -1"),
        (["worse.py"], "worse.py: dtype must be float32 | bfloat16 | float16, not 'int8'"),
        (["out", "gpt2-xl"], "out and gpt2-xl: name one model at a time"),
        (["gpt2-xl", "--out_dir=out"], "gpt2-xl and --out_dir=out: both name a model; give one of them"),
        (["--init_from=gpt2-xl", "out"], "out and --init_from=gpt2-xl: both name a model; give one of them"),
        (["--out_dir=none"], "--out_dir=none: no such directory; name the out_dir of a run, or a model"),
        (
            ["--init_from=scratch"],
            "--init_from=scratch: no such file or directory; the models known by name are gpt2, gpt2-medium,",
        ),
        (["--out_dir="], "argument --out_dir: must not be empty"),
        (["--which=best"], "--which=best: out holds one model, so there is nothing to choose"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.py").write_text("top_k = -1\n")
    Path("worse.py").write_text("dtype = 'int8'\n")
    assert refused(capsys, "sample", *arguments).startswith(said)


# --- what differs is said --------------------------------------------------------------------------------------------


def test_what_is_not_done_as_asked_for_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--device=cpu", "--num_samples=1", "--max_new_tokens=5"]
    main(["sample", *few, "--dtype=float16", "--compile=True"])
    precision, compiled, tokens = capsys.readouterr().err.splitlines()
    assert precision == "nanopace: --dtype=float16: without a CUDA card sampling runs in float32, as in nanoGPT"
    assert compiled == "nanopace: --compile=True: sampling does not compile the model; a KV cache makes it fast"
    assert tokens.startswith("5 tokens in ")
    main(["sample", *few, "--dtype=float32", "--compile=False"])
    assert capsys.readouterr().err.startswith("5 tokens in ")


def test_the_end_of_a_document_by_its_name() -> None:
    """In GPT-2's tokens, as in nanoGPT; with an alphabet, it is only letters."""
    end = "<|endoftext|>"
    encode = gpt2().encode
    assert sample._encoded(end, gpt2()) == [50256]
    assert sample._encoded(f"Hi{end}there", gpt2()) == [*encode("Hi"), 50256, *encode("there")]
    assert sample._encoded("", gpt2()) == [50256]
    assert len(sample._encoded(end, chars(end))) == len(end)
