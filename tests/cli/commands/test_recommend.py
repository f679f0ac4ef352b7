"""`nanopace recommend`: the answer, the tables, the file, and a one-line error for every mistake."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config_text import read_config
from nanopace.hardware.cards import Card, all_cards
from nanopace.hardware.speed import training_peak
from nanopace.views.terminal.writer import columns
from nanopace.wording.numbers import LANGUAGES

from ..refused import refused

Capture = pytest.CaptureFixture[str]

COMMAND = [sys.executable, "-m", "nanopace", "recommend"]


def shown(capsys: Capture, *arguments: str) -> str:
    assert main(["recommend", *arguments]) == 0
    return capsys.readouterr().out


def test_the_answer_comes_first(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070", "--model", "gpt2")
    first = out.partition("\n\n")[0].replace("\n", " ")
    assert first.startswith("RTX 4070 (12 GB): gpt2, batch_size 8, gradient_accumulation_steps 64. About ")
    assert "2.47B tokens in " in first
    assert first.split(". ")[-1].startswith("Estimated final loss: about ")
    titles = ["Largest micro-batch in 12 GB", "What to expect", "One card and several", "Settings and reasons", "Notes"]
    assert all(f"\n{title}\n" in out for title in titles)
    assert "Models for this card" not in out
    assert "  nanoGPT                         15\n" in out


def test_without_a_model_all_of_them_are_considered(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070")
    assert out.startswith("RTX 4070 (12 GB): gpt2-medium,")
    table = out.split("Models for this card\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table[1:]] == ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"]
    assert table[-1].endswith("only with host memory")
    assert "does not fit" in shown(capsys, "--gpu", "2080 Ti")  # our kernels do not run there


def test_a_model_that_needs_the_host_s_memory_says_so_first(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070", "--model", "gpt2-xl", "--width", "120")
    assert "The model fits only with 17.1 GiB of the computer's own memory." in " ".join(
        out.partition("\n\n")[0].split()
    )
    assert "computed for a bus with 25 GB/s in each direction" in " ".join(out.split())
    row = next(line for line in out.splitlines() if line.startswith("  averages and weights in host memory"))
    assert row.split()[-3:] == ["4", "recommended:", "4"]


def test_several_cards_side_by_side(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070,4080, 4090", "--model", "gpt2", "--tokens", "10B")
    header = out.split("Side by side\n")[1].splitlines()[0]
    assert [name in header for name in ("RTX 4070", "RTX 4080", "RTX 4090")] == [True] * 3
    assert "Settings and reasons" not in out
    assert out.count("an estimate for web text") == 1


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_wider_than_the_terminal(language: str, width: int, capsys: Capture) -> None:
    for cards in ("4070", "4070,H200,2080ti,L4,MI300X"):
        out = shown(capsys, "--gpu", cards, "--lang", language, "--width", str(width))
        assert max(columns(line) for line in out.splitlines()) <= width
        assert "{" not in out


def test_every_language_says_all_of_it(capsys: Capture) -> None:
    english = shown(capsys, "--gpu", "L4", "--model", "gpt2", "--dataset", "shakespeare", "--width", "120")
    for language in ("de", "fr", "es"):
        other = shown(
            capsys, "--gpu", "L4", "--model", "gpt2", "--dataset", "shakespeare", "--width", "120", "--lang", language
        )
        same = set(english.splitlines()) & set(other.splitlines()) - {""}
        assert all(line.split()[0] in ("nanoGPT", "activation") for line in same), same


def test_json_is_the_same_in_every_language(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070", "--json")
    assert out == shown(capsys, "--gpu", "4070", "--json", "--lang", "de")
    found = json.loads(out)
    assert list(found) == KEYS
    assert found["tokens_per_s"].keys() == {"low", "expected", "high"}
    assert [each["name"] for each in found["models"]] == ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"]
    unfit = found["models"][-1]
    assert (unfit["fits"], unfit["batch_size"], unfit["tokens_per_s"]) == (False, None, None)
    several = json.loads(shown(capsys, "--gpu", "4070,2080ti", "--json", "--model", "124M"))
    assert [card["card"] for card in several["cards"]] == ["NVIDIA GeForce RTX 4070", "NVIDIA GeForce RTX 2080 Ti"]
    assert [card["precision"] for card in several["cards"]] == ["bf16", "fp16"]
    assert several["cards"][1]["peak_tflops"] == 53.8
    unknown = json.loads(shown(capsys, "--gpu", "5090 laptop", "--json", "--model", "124M"))
    assert unknown["tokens_per_s"] is unknown["precision"] is unknown["peak_tflops"] is None


KEYS = [
    *("version", "card", "memory_gb", "peak_tflops", "precision", "card_class", "measured", "model", "parameters"),
    *("dataset", "dataset_tokens", "epochs", "effective_tokens", "enough_tokens", "enough_iters", "tokens"),
    *("tokens_per_step", "max_iters", "rungs", "batch_size", "accumulation", "ladder", "memory_bytes", "host_bytes"),
    *("nanogpt_fits", "tokens_per_s", "nanogpt_tokens_per_s", "nanogpt_early_tokens_per_s", "step_s", "seconds"),
    *("fast_seconds", "kwh", "together", "loss", "perplexity", "loss_unknown", "evaluation_share"),
    *("nanogpt_evaluation_share", "knobs", "models"),
]


def headline(out: str) -> str:
    return out.partition("\n\n")[0].replace("\n", " ")


def test_repeated_text_is_in_the_headline(capsys: Capture) -> None:
    """Epochs, what they are worth, and how many steps suffice: 6,624 passes and a loss of 3.58 once hid this."""
    many = ("--gpu", "4070", "--model", "gpt2", "--dataset", "shakespeare", "--tokens", "2B")
    said = headline(shown(capsys, *many))
    assert said.endswith(
        "6,624 passes over shakespeare are worth 16.4 passes over fresh text: beyond about 40, nothing more is "
        "learned and the model overfits. --tokens 4833280 is enough: 16 passes, 1,180 steps. Final loss: unknown, "
        "since the scaling laws do not describe overfitting."
    )
    advised = json.loads(shown(capsys, *many[:-1], "4833280", "--json"))
    assert (advised["max_iters"], round(advised["epochs"], 1)) == (1180, 16.0)
    for language in ("de", "fr", "es"):
        assert "16,4" in headline(shown(capsys, *many, "--lang", language))
    some = headline(shown(capsys, "--gpu", "H200", "--model", "gpt2", "--tokens", "100B"))
    assert "10 passes over fineweb-edu are worth 7.8 passes over fresh text. Estimated final loss: about " in some
    for few in (("--tokens", "20B"), ("--tokens", "1000B", "--dataset", "mine")):
        assert "passes" not in headline(shown(capsys, "--gpu", "H200", "--model", "gpt2", *few))


def test_repeated_text_is_in_the_config(tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.py"
    shown(capsys, "--gpu", "4070", "--dataset", "shakespeare", "--tokens", "2B", "--write", str(config))
    text = config.read_text()
    assert "passes over shakespeare are worth 16.4 passes over fresh text" in text
    assert "# Final loss: unknown" in text


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        (("--model", "n_layer=6,n_head=6,n_embd=384,vocab_size=65", "--dataset", "mine"), "vocabulary"),
        (("--model", "gpt2", "--dataset", "shakespeare_char"), "vocabulary"),
        (("--model", "gpt2", "--dataset", "shakespeare", "--tokens", "2B"), "passes"),
        (("--model", "n_layer=2,n_head=1,n_embd=16,block_size=32", "--tokens", "10000"), "tokens"),
        (("--model", "n_layer=2,n_head=1,n_embd=16", "--tokens", "1B"), "parameters"),
    ],
)
def test_a_loss_that_no_law_tells_is_unknown(asked: tuple[str, ...], limit: str, capsys: Capture) -> None:
    """It was 58 for 10,000 tokens, and 5.52 for 65 letters, where ln(65) = 4.17 means knowing nothing."""
    out = shown(capsys, "--gpu", "4070", *asked)
    assert "Final loss: unknown, since the scaling laws " in headline(out)
    assert "perplexity" not in out
    assert "an estimate" not in out
    found = json.loads(shown(capsys, "--gpu", "4070", *asked, "--json"))
    assert (found["loss"], found["perplexity"], found["loss_unknown"]) == (None, None, limit)
    assert "–" in shown(capsys, "--gpu", "4070,4090", *asked).split("validation loss")[1]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("card", ["L4", "MI300X", "A100-SXM4-80GB", "4090 laptop", "GH200", "M2 Max", "2080 Ti"])
def test_several_cards_only_where_one_was_measured(card: str, language: str, capsys: Capture) -> None:
    asked = ("--gpu", card, "--model", "gpt2-medium", "--lang", language)
    out = shown(capsys, *asked)
    assert "DDP" not in out
    alone = {"en": "One card and several", "de": "Eine Karte und mehrere"}.get(language)
    assert alone is None or alone not in out
    found = json.loads(shown(capsys, *asked, "--json"))
    assert [each["count"] for each in found["together"]] == [1]


@pytest.mark.parametrize("card", all_cards(), ids=lambda card: card.label)
def test_every_card_has_an_answer_for_shakespeare(card: Card, capsys: Capture) -> None:
    """Even if neither its speed nor the loss is known."""
    out = shown(capsys, "--gpu", card.label, "--dataset", "shakespeare_char")
    assert "16 passes over shakespeare_char are worth 10.6 passes over fresh text" in headline(out)
    assert ("What to expect" in out) == (training_peak(card) is not None)
    assert ("these figures are for float" in " ".join(out.split())) == card.without_bf16


@pytest.mark.parametrize(
    ("card", "precision"), [("T4", "fp16"), ("P100", "fp32"), ("4070", "bf16"), ("M2 Max", "bf16")]
)
def test_a_peak_given_by_hand_is_that_of_the_card_s_format(card: str, precision: str, capsys: Capture) -> None:
    asked = ("--gpu", card, "--model", "gpt2", "--peak-tflops", "40", "--memory", "20", "--json")
    found = json.loads(shown(capsys, *asked))
    assert (found["peak_tflops"], found["precision"], found["memory_gb"]) == (40, precision, 20)
    assert found["tokens_per_s"] is not None


@pytest.mark.parametrize(
    ("language", "half", "single"),
    [
        ("en", "This card has no bf16: these figures are for float16.", "these figures are for float32."),
        ("de", "Diese Karte kann kein bf16: Die Werte gelten für float16.", "Die Werte gelten für float32."),
        ("fr", "Cette carte n’a pas de bf16 : ces chiffres valent pour float16.", "ces chiffres valent pour float32."),
        ("es", "Esta tarjeta no tiene bf16: estas cifras son para float16.", "estas cifras son para float32."),
    ],
)
def test_the_number_format_is_said_with_the_figures(language: str, half: str, single: str, capsys: Capture) -> None:
    def first(card: str) -> str:
        return headline(shown(capsys, "--gpu", card, "--model", "gpt2", "--lang", language)).replace("\u00a0", " ")

    for card in ("T4", "V100-SXM2-32GB", "2080 Ti"):
        assert half in first(card)
    for card in ("P100", "GTX 1660 SUPER"):
        assert single in first(card)
    assert "float" not in first("4070")
    both = headline(shown(capsys, "--gpu", "4070,T4", "--model", "gpt2", "--lang", language)).replace("\u00a0", " ")
    assert f"Tesla T4: {half}" in both


def test_what_is_true_of_all_cards_is_said_once(capsys: Capture) -> None:
    asked = ("--gpu", "4070,4090,L4", "--dataset", "shakespeare")
    said = headline(shown(capsys, *asked, "--tokens", "2B"))
    assert said.count("6,62") == said.count("Final loss: unknown") == 1
    assert headline(shown(capsys, *asked[:2], "--model", "gpt2")).count("Estimated final loss: about 3.52") == 3


def test_fast_is_named_with_its_hours_and_limits(capsys: Capture) -> None:
    out = shown(capsys, "--gpu", "4070", "--model", "gpt2")
    table = out.split("What to expect\n")[1].split("\n\n")[0].splitlines()
    at = next(i for i, row in enumerate(table) if "time to 2.47B tokens" in row)
    assert table[at + 1].replace("\u00a0", " ") == "  same loss with --recipe=fast     2.7 h  2.0 h to 4.3 h"
    assert "--recipe=fast is not a GPT-2: no ckpt.pt for nanoGPT" in out
    found = json.loads(shown(capsys, "--gpu", "4070", "--model", "gpt2", "--json"))
    assert [round(found["fast_seconds"][name] / 3600, 1) for name in ("low", "expected", "high")] == [2.0, 2.7, 4.3]
    assert "same loss with" not in shown(capsys, "--gpu", "4070", "--model", "gpt2-medium")


def test_fast_side_by_side_is_a_row_where_it_is_known_of_any(capsys: Capture) -> None:
    assert "same loss" not in shown(capsys, "--gpu", "MI300X,2080 Ti", "--model", "gpt2").split("Side by side")[1]
    out = shown(capsys, "--gpu", "4070,MI300X", "--model", "gpt2")
    row = next(row for row in out.splitlines() if "same loss with" in row)
    assert row.replace("\u00a0", " ").split()[-3:] == ["2.7", "h", "–"]
    assert "RTX 4070: --recipe=fast is not a GPT-2" in out


def test_eight_cards_are_a_row_where_they_are_known_of_any(capsys: Capture) -> None:
    assert "8 cards" not in shown(capsys, "--gpu", "L4,A100-SXM4-80GB", "--model", "gpt2")
    rows = shown(capsys, "--gpu", "4070,L4", "--model", "gpt2").splitlines()
    assert next(row for row in rows if "8 cards" in row).endswith(" –")


def test_what_shakespeare_is_trained_with(tmp_path: Path, capsys: Capture) -> None:
    """nanoGPT's small model, dropout, and evaluations that show overfitting; not a GPT-2 with one step per epoch."""
    config = tmp_path / "config.py"
    out = shown(capsys, "--gpu", "RTX 3060 12GB", "--dataset", "shakespeare_char", "--write", str(config))
    assert out.startswith("RTX 3060 (12 GB): 6x384, batch_size 32")
    assert "Our own kernels do not support dropout" in out
    assert "nanopace prepare shakespeare --tokenizer chars --name shakespeare_char creates it" in config.read_text()
    read = read_config(config, to_train=True)
    expected = {"n_layer": 6, "block_size": 256, "dropout": 0.2, "always_save_checkpoint": False, "beta2": 0.99}
    assert expected.items() <= read.items()
    assert "vocab_size" not in read  # it is in the dataset's meta.pkl
    assert int(str(read["max_iters"])) >= 10 * int(str(read["eval_interval"]))


def test_a_dataset_on_this_disk_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """As nanoGPT's prepare.py leaves it: two bytes per token, and the vocabulary in meta.pkl."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "mine"
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(bytes(200_000))
    (folder / "val.bin").write_bytes(bytes(20_000))
    asked = ("--gpu", "4070", "--model", "gpt2", "--dataset", "mine", "--tokens", "10M", "--json")
    found = json.loads(shown(capsys, *asked))
    assert (found["dataset_tokens"], round(found["epochs"])) == (100_000, 100)
    assert found["model"]["vocab_size"] == 50304
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 96}))
    found = json.loads(shown(capsys, *asked))
    assert (found["model"]["vocab_size"], found["loss_unknown"]) == (96, "vocabulary")
    (folder / "train.bin").write_bytes(b"odd")  # training reports it
    assert json.loads(shown(capsys, *asked))["epochs"] is None
    assert json.loads(shown(capsys, "--gpu", "4070", "--dataset", "a" * 5000, "--json"))["epochs"] is None


def test_a_card_by_hand(capsys: Capture) -> None:
    out = shown(capsys, "--peak-tflops", "58", "--memory", "12", "--model", "gpt2")
    assert out.startswith("58 TFLOP/s (12 GB): gpt2, batch_size 8")
    assert "No card of this kind was measured" in " ".join(out.split())
    assert shown(capsys, "--gpu", "my card", "--peak-tflops", "58", "--memory", "12").startswith("my card (12 GB)")
    assert shown(capsys, "--gpu", "4070", "--memory", "8").startswith("RTX 4070 (8 GB)")
    assert shown(capsys, "--gpu", "3060", "--memory", "8").startswith("RTX 3060 (8 GB)")  # of two cards of that name
    assert "unknown" not in shown(capsys, "--gpu", "5090 laptop", "--peak-tflops", "100").partition("\n\n")[0]


def test_a_process_of_its_own_writes_a_config(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    flags = "--gpu 4090 --model gpt2 --dataset mine --tokens 1B --write"
    asked = [*COMMAND, *flags.split(), str(config)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"\nWrote {config}.\n")
    read = read_config(config, to_train=True)
    assert (read["dataset"], read["batch_size"], read["max_iters"]) == ("mine", 32, 1907)
    again = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == f"nanopace: --write {config}: already exists; --overwrite replaces it\n"
    assert subprocess.run([*asked, "--overwrite"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--gpu NAME is needed, such as --gpu 4070; nanopace cards lists all"),
        (["--gpu", ","], "--gpu NAME is needed"),
        (["--gpu", "4071"], "4071: no such card in the table; similar names: NVIDIA GeForce RTX 4070"),
        (["--gpu", "4071"], "--peak-tflops 58 --memory 12"),
        (["--gpu", "xyzzy"], "or give its figures: --peak-tflops 58 --memory 12"),
        (["--gpu", "3080"], "several cards match"),
        (["--gpu", "8x H100 PCIe"], "--gpu 8x H100 PCIe: name a single card, without a count"),
        (["--gpu", "T4", "--model", "gpt2-xl"], "use --model gpt2-large, or a card with 32 GB or more"),
        (["--gpu", "4070", "--model", "gpt9"], "--model 'gpt9': unknown"),
        (["--gpu", "4070", "--tokens", "1000"], "--tokens 1000: less than one sequence of 1024 tokens; increase it"),
        (["--gpu", "4070", "--tokens", "1M", "--batch", "2M"], "--tokens 1000000: less than one step of 1,998,848"),
        (["--gpu", "4070", "--tokens", "many"], "--tokens must be a number of tokens such as 10B"),
        (["--gpu", "4070", "--batch", "12"], "--batch 12: less than one sequence"),
        (["--gpu", "4070", "--dataset", "a\nb"], "must be the name of a folder"),
        (["--memory", "12"], "also needs --peak-tflops"),
        (["--peak-tflops", "12"], "also needs --memory"),
        (["--memory", "nan", "--peak-tflops", "3"], "argument --memory: invalid figure: 'nan'"),
        (["--gpu", "4070,4090", "--memory", "12"], "--peak-tflops and --memory describe one card, but --gpu names 2"),
        (["--gpu", "4070,4090", "--write", "x.py"], "--write writes the config for one card, but 2 are given"),
        (["--gpu", "4070", "--overwrite"], "--overwrite needs --write FILE"),
        (["--gpu", ",".join(["4070"] * 13)], "at most 12 cards side by side, not 13"),
        (["--gpu", "4070", "--write", "/no/such/x.py"], "no such directory"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: Capture) -> None:
    assert said in refused(capsys, "recommend", *arguments)


@pytest.mark.usefixtures("untraced")
def test_it_is_quick_and_needs_no_torch() -> None:
    """Slow modules are not imported; the time has a bound that even a busy machine meets."""
    probe = (
        "import sys; from nanopace.cli.main import main; main(['recommend', '--gpu', '4070']); "
        "print(sorted({'torch', 'numpy', 'rich', 'jinja2', 'triton', 'babel'} & set(sys.modules)), file=sys.stderr)"
    )
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert time.perf_counter() - begin < 10
