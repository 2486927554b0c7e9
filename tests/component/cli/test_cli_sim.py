"""`ballast sim`: files are carried out, compared, rewritten and drawn; the exit code says whether all is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.main import main

TINY = """\
gen_cluster brokers=2 cores=4
gen_load bundles=8 tenants=2 skew=equal utilisation=0.3
set strategy=headroom
assertion type=moves total==0
eval duration=3m seed=1
"""


def sim(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *map(str, arguments)])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.txt"
    path.write_text(TINY)
    return path


def test_the_mark_at_the_beginning_of_a_file_is_no_command(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(f"# a comment\n{TINY}", encoding="utf-8-sig")
    assert sim(capsys, file)[0] == 0


def test_a_file_without_results_is_carried_out_and_its_results_are_printed(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    code, out, err = sim(capsys, file)
    assert (code, err) == (0, "ballast sim: configuration: defaults, and what each file says\n")
    new = "ok, 1 of its results not recorded yet (--rewrite records them)"
    assert out.startswith(f"{file}: {new}\n{file}:5: eval gives\nstrategy headroom, 3 rounds")
    assert out.endswith("\nOK\n")
    assert "the file says" not in out
    assert file.read_text() == TINY
    assert sim(capsys, file, "--rewrite")[:2] == (0, f"{file}: rewritten\n")
    assert file.read_text().startswith(TINY + "----\nstrategy headroom, 3 rounds")
    assert sim(capsys, file.parent)[:2] == (0, f"{file}: ok\n")


def test_a_configuration_in_the_environment_is_said_not_to_count(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALLAST_CONF", "/none/ballast.yaml")
    _, _, err = sim(capsys, file)
    assert err == "ballast sim: configuration: defaults, and what each file says (BALLAST_CONF is not read)\n"


def test_a_file_whose_results_are_others_differs(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(TINY + "----\nother\n\nplot\n")
    code, out, _ = sim(capsys, file)
    assert code == 1
    assert out.startswith(
        f"{file}: differs, 1 of its results not recorded yet (--rewrite records them)\n{file}:9: plot"
    )
    assert f"\n{file}:5: eval gives\nstrategy headroom, 3 rounds" in out
    assert out.endswith("and the file says\nother\n")


def test_an_assertion_that_fails_is_a_problem_also_without_results(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(TINY.replace("total==0", "total>0"))
    code, out, _ = sim(capsys, file)
    assert code == 1
    assert out.startswith(f"{file}: fails, 1 of its results not recorded yet")
    assert out.endswith(f"{file}:5: FAILED: moves total>0, found 0\n")


def test_an_assertion_that_fails_is_a_problem_also_when_rewritten(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(TINY.replace("total==0", "total>0"))
    code, out, _ = sim(capsys, file, "--rewrite")
    assert (code, out) == (1, f"{file}: rewritten\n{file}:5: FAILED: moves total>0, found 0\n")
    again = f"{file}: fails\n{file}:5: FAILED: moves total>0, found 0\n"
    assert sim(capsys, file)[:2] == (1, again), "it prints what it says, and still does not hold"


@pytest.mark.covers("right-settings")
def test_another_strategy_is_printed_and_not_written(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = sim(capsys, file, "--strategy", "threshold")
    assert (code, file.read_text()) == (0, TINY)
    assert "\nstrategy threshold, 3 rounds" in out
    code, _, err = sim(capsys, file, "--strategy", "threshold", "--rewrite")
    assert (code, file.read_text()) == (2, TINY)
    assert "--rewrite would write the results of --strategy threshold" in err


def test_runs_are_drawn(capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path) -> None:
    file.write_text(TINY + "\nset strategy=threshold\neval\n")
    _, out, _ = sim(capsys, file, "--plots", tmp_path / "plots")
    drawn = [tmp_path / "plots" / name for name in ("tiny-1.png", "tiny-2.png")]
    assert [path.read_bytes()[:4] for path in drawn] == [b"\x89PNG"] * 2
    assert f"drawn: {drawn[0]}\ndrawn: {drawn[1]}\n" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gen_cluster broker=2\n", "tiny.txt:1: unknown argument 'broker' of gen_cluster"),
        ("set tolerancee=0.1\n", "is no setting of a policy; the nearest is steady.tolerance"),
        (None, "does not exist"),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], file: Path, text: str | None, told: str) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    code, out, err = sim(capsys, file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_file_in_which_nothing_is_run_is_no_success(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("gen_cluster brokers=2\n")
    code, out, _ = sim(capsys, file)
    assert (code, out) == (1, f"{file}: nothing was carried out: it has no eval\n")


def test_a_file_in_another_encoding_is_one_line(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_bytes(b"# caf\xe9\ngen_cluster brokers=2\n")
    code, out, err = sim(capsys, file)
    assert (code, out) == (2, "")
    assert err == f"ballast: cannot read scenario file {file}: is no UTF-8 text: save it as UTF-8\n"


def test_a_folder_without_scenarios_is_no_success(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = sim(capsys, tmp_path)
    assert (code, out) == (2, "")
    assert err == f"ballast: {tmp_path} holds no scenario file (*.txt): name files, or a folder that has some\n"


def test_a_folder_called_like_a_scenario_file_is_passed_over(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    (file.parent / "inner.txt").mkdir()
    code, out, _ = sim(capsys, file.parent)
    assert code == 0
    assert "inner" not in out
    code, _, err = sim(capsys, file.parent / "inner.txt")
    assert code == 2
    assert err.endswith("inner.txt holds no scenario file (*.txt): name files, or a folder that has some\n")


def test_a_folder_for_plots_that_cannot_be_made_is_named_before_anything_runs(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    taken = file.parent / "taken"
    taken.touch()
    for plots in (taken, taken / "inner"):
        code, out, err = sim(capsys, file, "--plots", plots)
        assert (code, out) == (2, "")
        assert err == (
            f"ballast: --plots = {plots} cannot be used: {taken} is a file; give a folder that can be written to\n"
        )
