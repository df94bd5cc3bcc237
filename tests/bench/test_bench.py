"""Every section at a tiny size, the card, the targets, the text, and the memory bound itself."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import replace

import pytest
import torch

from pjrope import cli, record
from pjrope.attention import AttentionLayer, attend
from pjrope.bench import cases, peers, targets
from pjrope.bench import memory as memory_module
from pjrope.bench import run as run_module
from pjrope.bench.memory import SQUARE, peaks
from pjrope.bench.models import EAGER, PER_PAIR, make_decoder
from pjrope.bench.pairing import Skipped
from pjrope.bench.report import report
from pjrope.bench.run import bench
from pjrope.bench.settings import FULL, QUICK, SECTIONS, at_lengths, on_cuda
from pjrope.experiments import ExperimentError
from pjrope.experiments.engine.store import load, read

TINY = replace(
    at_lengths(FULL, [64]), training=((64, 2),), steps=1, budget=0.0, least_pairs=2, least_seconds=0.0
)  # fmt: skip
TIMES = ("seconds", "reference_seconds", "cpu_seconds", "reference_cpu_seconds")
HERE = set(TINY.kernels)


@pytest.fixture(scope="module")
def timed():
    """The sections that are timed, all at N = 64."""
    names = [name for name in SECTIONS if name != "memory"]
    return bench(TINY, names)


@pytest.fixture(scope="module")
def sized():
    """Ours for real; attention without a bias is measured below, at a length that tells something."""
    real = memory_module._child

    def child(kernel, *words):
        return {"bytes": 10**7, "chosen": "sdpa"} if kernel == "none" else real(kernel, *words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "_child", child)
        return bench(replace(TINY, kernels=("full",)), ["memory"])


@pytest.mark.parametrize("section", ["forward", "backward", "decode", "training", "evaluation"])
def test_every_kernel_of_ours_runs_in_every_section(timed, section):
    rows = timed.where(section=section, backend="auto").rows
    assert {row["method"] for row in rows} == HERE
    for row in rows:
        assert row["skipped"] is None and row["n"] == 64
        assert row["pairs"] == len(row["seconds"]) >= 2
        assert all(len(row[name]) == row["pairs"] for name in TIMES)
        assert 0 < row["ratio_low"] <= row["ratio"] <= row["ratio_high"]


@pytest.mark.parametrize("section", ["forward", "backward"])
def test_peers_run_or_say_why_not(timed, section):
    rows = {r["method"]: r for r in timed.where(section=section).rows if not r["backend"]}
    dense = [name for name in rows if name.startswith("dense")]
    assert len(dense) == 3 and not any(rows[name]["skipped"] for name in dense)
    assert "--flex" in rows["FlexAttention, lag table"]["skipped"]
    named = timed.where(section=section, backend=["toeplitz", "fold"]).rows
    assert sum(row["skipped"] is None for row in named) >= 1
    assert all(row["skipped"] in (None, "auto takes it, see there") for row in named)


def test_training_is_compared_with_slower_ways_to_the_same_model(timed):
    rows = timed.where(section="training", method="full").rows
    assert {row["against"] for row in rows} == {"none", EAGER, PER_PAIR}
    row = timed.where(section="training", method="rope").rows[0]
    assert row["tokens_per_second"] == pytest.approx(128 / statistics.median(row["seconds"]))


def test_peers_that_are_not_installed_are_named(monkeypatch):
    for module in peers.PEERS.values():
        monkeypatch.setitem(sys.modules, module, None)
    rows = bench(TINY, ["rotate"]).rows
    assert {row["skipped"] for row in rows} == {
        "rotary-embedding-torch: not installed: pip install rotary-embedding-torch"
    }
    with pytest.raises(Skipped, match="not installed: pip install x-transformers"):
        peers.imported("x-transformers")


def test_rotate_is_timed_where_the_peer_is_there(monkeypatch):
    class Rotary:
        def __init__(self, dim):
            assert dim == TINY.head_dim

        def to(self, device):
            return self

        def rotate_queries_or_keys(self, x):
            return x * 2

    package = type(sys)("rotary_embedding_torch")
    package.RotaryEmbedding = Rotary
    monkeypatch.setitem(sys.modules, package.__name__, package)
    rope, jordan = bench(TINY, ["rotate"]).rows
    assert rope["skipped"] is None and rope["must"] == 1.0 and rope["verdict"]
    assert jordan["method"] == "jordan" and jordan["must"] == 1.5


def test_what_needs_too_much_memory_is_skipped_with_its_size():
    qkv = cases.inputs(replace(TINY, limit_bytes=1e6), 256, train=False)
    found = peers.attention_peers(qkv, replace(TINY, limit_bytes=1e6), train=False)
    prepare = {each.name: each.prepare for each in found}["dense bias, prebuilt"]
    with pytest.raises(Skipped, match=r"needs 0\.0 GB, limit 0\.001 GB"):
        prepare()


@pytest.mark.parametrize("name", ["alibi", "full"])
def test_dense_peers_compute_what_attend_computes(name):
    settings = replace(TINY, length=32)
    kernel = cases.make_kernel(name, settings)
    q, k, v = cases.inputs(settings, 48, train=False)
    want = attend(q, k, v, kernel)
    for bias in (peers.pair_bias, peers.table_bias):
        mask = bias(kernel, 48, "cpu").to(q.dtype)
        got = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[None])
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_the_per_pair_layer_is_the_same_layer():
    layer = AttentionLayer(32, 4, kernel=cases.KERNELS["full"](replace(TINY, length=16)))
    x = torch.randn(2, 24, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(peers.PerPair(layer)(x), layer(x), rtol=0, atol=1e-5)


def test_the_models_share_their_backbone():
    none, full = make_decoder("none", TINY), make_decoder("full", TINY)
    assert none.config.width == 96 and none.config.layers == 2
    weights = dict(full.named_parameters())
    assert all(torch.equal(weights[name], p) for name, p in none.named_parameters())
    assert len(weights) > len(dict(none.named_parameters()))


def test_memory_rows_count_bytes(sized):
    forward, backward, square = sized.rows
    assert (forward["passes"], backward["passes"]) == ("forward", "forward + backward")
    assert square["against"] == SQUARE and square["reference_bytes"] == 4 * 64 * 64
    for row in sized.rows:
        assert row["bytes"] > 64 * 128 * 4 * 3 and row["chosen"]
        assert row["ratio"] == pytest.approx(row["bytes"] / row["reference_bytes"])


def test_results_survive_json_and_a_record_can_be_loaded(timed, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "home", lambda: tmp_path)
    monkeypatch.setattr(record, "in_checkout", lambda: True)
    assert run_module.save_record(timed) == "pjrope/record/bench/cpu.json"
    again = load("bench", "cpu")
    assert again.rows == json.loads(json.dumps(timed.rows))
    card = again.card
    assert card["threads"] == 1 and card["torch"] == torch.__version__ and card["date"]
    assert set(card["peers"]) == set(peers.PEERS) and card["settings"]["heads"] == 4
    monkeypatch.setattr(record, "in_checkout", lambda: False)
    with pytest.raises(ExperimentError, match="use --json FILE"):
        run_module.save_record(timed)


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    with run_module.threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


ROW = {
    "section": "forward",
    "method": "full",
    "backend": "auto",
    "n": 4096,
    "against": cases.PLAIN,
}


@pytest.mark.parametrize(
    ("changes", "device", "must"),
    [
        ({}, "cpu", 1.15),
        ({"n": 1024}, "cpu", None),
        ({"backend": "fold"}, "cpu", None),
        ({"method": "dense bias, prebuilt", "backend": ""}, "cpu", None),
        ({"section": "backward", "n": 1024}, "cpu", 1.60),
        ({"section": "backward", "method": "affine"}, "cpu", 1.35),
        ({"section": "backward", "n": 8192}, "cuda", 1.30),
        ({"section": "forward", "n": 8192}, "cuda", 1.15),
        ({"section": "memory", "n": 32768, "passes": "forward"}, "cpu", 1.25),
        ({"section": "memory", "n": 32768, "passes": "forward + backward"}, "cpu", None),
        ({"section": "memory", "n": 32768, "against": SQUARE}, "cpu", 1.00),
        ({"section": "training", "n": 1024, "against": "none"}, "cpu", 1.30),
        ({"section": "training", "n": 256, "against": "none"}, "cpu", None),
        ({"section": "training", "n": 1024, "against": PER_PAIR}, "cpu", 1 / 3),
        ({"section": "training", "n": 1024, "against": EAGER}, "cpu", None),
        ({"section": "evaluation", "n": 32768, "against": "none"}, "cpu", 1.20),
        ({"section": "decode", "n": 32768, "against": "none"}, "cpu", 1.10),
        ({"section": "decode", "n": 8192, "against": "none"}, "cpu", None),
    ],
)
def test_targets_judge_the_rows_they_are_meant_for(changes, device, must):
    found = targets.target_of({**ROW, **changes}, device)
    assert (found and found.must) == must


def test_every_target_names_kernels_and_sections_that_exist():
    for target in targets.TARGETS:
        assert target.section in SECTIONS and set(target.methods) <= set(cases.KERNELS)
        assert target.strive <= target.must


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(1.0, "met, aim too"), (1.004, "met, aim too"), (1.15, "met"), (1.154, "met"), (1.16, "missed")],
)  # fmt: skip
def test_a_verdict_agrees_with_the_two_decimals_printed(ratio, word):
    target = targets.target_of(ROW, "cpu")
    assert targets.verdict(ratio, target) == word


def test_the_report_shows_every_row_once_aligned(timed):
    text = report(timed)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    ran = [row for row in timed.rows if not row["skipped"]]
    heads = sum(line.startswith("| method") for line in tables)
    assert len(tables) == len(ran) + 2 * heads
    blocks = "\n".join(x if x.startswith("|") else "" for x in text.splitlines()).split("\n\n")
    for block in (b.strip() for b in blocks):
        assert len({len(line) for line in block.splitlines()}) <= 1
    assert "auto: toeplitz" in text and "N = 64: takes most of a minute" in text
    assert text.splitlines()[-1].startswith("Targets: ")


def test_the_report_names_what_missed_and_a_busy_machine(timed):
    row = {**timed.where(section="forward", method="full").rows[0], "n": 4096, "ratio": 1.5}
    row |= {"must": 1.15, "strive": 1.0, "verdict": "missed"}
    busy = {**timed.card, "load": 7.0, "cores": 2}
    text = report(replace(timed, rows=[row], card=busy))
    assert "missed: forward N=4,096 full (auto): 1.50 x plain causal, no bias (must 1.15)" in text
    assert "0 of 1 met" in text and "load 7.0 on 2 cores" in text
    idle = report(replace(timed, card={**timed.card, "load": 0.1, "cores": 2}))
    assert "busy" not in idle


def _refused(words):
    try:
        return cli.main(words)
    except SystemExit as stop:
        return stop.code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "sideways"], "no section 'sideways'; choose from: forward, backward"),
        (["--threads", "0"], "threads 0: give an integer >= 1"),
        (["--lengths", "64,many"], "--lengths '64,many': write integers"),
        (["--lengths", "4"], "length 4: give at least 16 tokens"),
        (["--lengths", "0"], "length 0: give at least 16 tokens"),
        (["--quick", "--record"], "--record keeps full runs only: drop --quick"),
        (["--only", "decode", "--record"], "drop --only"),
        (["--json", "."], "--json . is a folder: name a file"),
        (["--device", "tpu"], "invalid choice"),
    ],
)
def test_bad_input_exits_2_with_one_line(capsys, words, message):
    assert _refused(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_without_a_gpu_the_gpu_run_says_so_and_writes_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    file = tmp_path / "gpu.json"
    assert cli.main(["bench", "--device", "cuda", "--json", str(file)]) == 0
    assert capsys.readouterr().out == "pjrope bench: not run: no CUDA device\n"
    assert not file.exists()
    with pytest.raises(ExperimentError, match="no CUDA device"):
        bench(on_cuda(QUICK))


def test_the_gpu_run_has_the_sizes_of_its_target():
    settings = on_cuda(FULL)
    assert settings.dtype == "bfloat16" and settings.lengths == (1024, 4096, 16384, 65536)
    assert (settings.head_dim, *settings.other_dims) == (64, 128)
    assert settings.flex and on_cuda(QUICK, chosen_lengths=True).lengths == QUICK.lengths


def test_further_channels_get_tables_of_their_own():
    settings = replace(TINY, lengths=(64,), other_dims=(16,))
    rows = bench(settings, ["forward"]).rows
    dims = (TINY.head_dim, 16)
    assert [r["passes"] for r in rows[:: len(rows) // 2]] == [f"{dim} channels" for dim in dims]


def test_the_command_prints_and_writes(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("pjrope.bench.command.FULL", TINY)
    file = tmp_path / "deep" / "bench.json"
    assert cli.main(["bench", "--only", "decode", "--json", str(file)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("# pjrope bench --only decode\n") and f"Written to {file}" in out
    assert err.count("\n") == len(TINY.kernels) and "decode N=64 rope (auto): " in err
    assert {row["section"] for row in read(file).rows} == {"decode"}


def test_show_prints_the_record_as_the_command_did(timed, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "home", lambda: tmp_path)
    monkeypatch.setattr(record, "in_checkout", lambda: True)
    assert cli.main(["show", "bench"]) == 2
    assert (
        "no record of bench (cpu or cuda); make one with: pjrope bench" in capsys.readouterr().err
    )
    run_module.save_record(timed)
    source = "the package's record, pjrope/record/bench/cpu.json"
    for words in ([], ["--preset", "cpu"], ["--out", "record"]):
        assert cli.main(["show", "bench", *words]) == 0
        assert capsys.readouterr().out == f"{report(timed)}\n\nShown: {source}\n"
    for words, message in ((["--preset", "cuda"], "(cuda)"), (["--out", "."], "drop --out")):
        assert cli.main(["show", "bench", *words]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_gpu_sections_run_at_a_tiny_size():
    settings = on_cuda(replace(TINY, lengths=(256,)), chosen_lengths=True)
    rows = bench(settings, ["backward"]).rows
    assert {row["method"] for row in rows if not row["skipped"]} >= HERE


def test_a_bias_stores_no_logits():
    """At N = 8,192 those of one block of queries would be 64 MB, and all of them 1 GB."""
    plain, full = peaks(["none", "full"], 8192, FULL, train=False)
    assert full["chosen"] == "toeplitz"
    assert full["bytes"] <= plain["bytes"] + 2**25


@pytest.mark.weekly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak on Linux")
def test_a_bias_takes_no_more_memory_than_a_quarter_beyond_plain_attention():
    plain, *found = peaks(["none", "full", "full"], 32_768, FULL, train=False)
    # How torch's freed memory lies makes 2 MB between two runs; more than it needs it never takes.
    full = min(found, key=lambda x: x["bytes"])
    assert full["chosen"] == "toeplitz"
    inputs_and_output = 4 * 4 * 32_768 * 32 * 4
    assert plain["bytes"] > inputs_and_output, "the peak must hold q, k, v and the output"
    assert full["bytes"] <= 1.25 * plain["bytes"]
