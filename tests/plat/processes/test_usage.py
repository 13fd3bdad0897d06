"""CPU time of a run and its programs, energy of processors, and GPUs as NVIDIA's own Python package reads them.

A library in C stands in for the driver of NVIDIA, so that all calls of `pynvml` are real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.processes.usage import Meter, Rapl
from plat.words.usage import Rates, Usage, total, total_usage, usage_of

BURN = "import time; start = time.process_time()\nwhile time.process_time() < start + 0.5: pass"


def test_the_cpu_time_of_a_program_and_of_its_programs_counts():
    meter = Meter()
    subprocess.run(["sh", "-c", f"{sys.executable} -c '{BURN}' & {sys.executable} -c '{BURN}'; wait"], check=True)
    facts = meter.facts()
    assert 1.0 <= facts["cpu_seconds"] < 3.0 and facts["seconds"] >= 0.5
    assert "cpu_kwh" not in facts or facts["cpu_kwh"] > 0


def test_the_peak_memory_is_that_of_the_program_where_it_is_larger():
    meter = Meter()
    assert meter.hardware()["peak_mb"] < 2000
    subprocess.run([sys.executable, "-c", "x = bytearray(2_500_000_000); x[::4096] = x[::4096]"], check=True)
    assert meter.hardware()["peak_mb"] > 2000
    assert Meter().hardware()["peak_mb"] < 2000  # of an earlier run of this process


def rapl(folder: Path, **zones: tuple[str, int]) -> Path:
    for name, (kind, counter) in zones.items():
        zone = folder / name.replace("_", ":").replace("intel:rapl", "intel-rapl")
        zone.mkdir(parents=True, exist_ok=True)
        for file, text in {"name": kind, "energy_uj": str(counter), "max_energy_range_uj": "1000000000"}.items():
            (zone / file).write_text(f"{text}\n")
    return folder


def test_the_energy_of_processors_and_memory_is_added_and_that_of_the_whole_platform_is_not(tmp_path):
    first = {"intel_rapl_0": ("package-0", 10_000_000), "intel_rapl_0_1": ("dram", 0), "intel_rapl_1": ("psys", 0)}
    meter = Rapl(rapl(tmp_path, **first, intel_rapl_0_0=("core", 5)))
    rapl(tmp_path, intel_rapl_0=("package-0", 40_000_000), intel_rapl_0_1=("dram", 5_000_000))
    rapl(tmp_path, intel_rapl_1=("psys", 900_000_000), intel_rapl_0_0=("core", 20_000_000))
    assert meter.read() == pytest.approx(35.0)
    rapl(tmp_path, intel_rapl_0=("package-0", 2_000_000))  # began anew at 1,000 J
    assert meter.read() == pytest.approx(35.0 + 962.0)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert meter.read() is None and not meter


def test_a_run_is_given_its_part_of_the_energy(tmp_path):
    meter = Meter(rapl(tmp_path, intel_rapl_0=("package-0", 0)))
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    rapl(tmp_path, intel_rapl_0=("package-0", 36_000_000))
    facts = meter.facts()
    assert 0 < facts["cpu_kwh"] <= 36 / 3.6e6


def test_without_counters_there_is_no_energy(tmp_path):
    assert not Rapl(tmp_path / "none") and Rapl(tmp_path).read() is None
    assert "cpu_kwh" not in Meter(tmp_path).facts()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder


METER = """
import json, os, sys, time
from plat.processes import usage
usage.FIRST = usage.EVERY = 0.05
gpus, after = sys.argv[1:]

def put(text):
    text = text.replace("OWN", str(os.getpid())).replace("OTHER", str(os.getppid()))
    open(gpus + ".new", "w").write(text)
    os.replace(gpus + ".new", gpus)

put(open(gpus).read())
meter = usage.Meter()
time.sleep(0.3)
put(after)
time.sleep(0.3)
print(json.dumps(meter.facts()))
"""


def measured(library: Path, folder: Path, before: str, after: str, visible: str | None) -> dict[str, float]:
    (folder / "gpus").write_text(before)
    environment = {**os.environ, "GPUS": str(folder / "gpus"), "LD_LIBRARY_PATH": str(library)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    environment |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    command = [sys.executable, "-c", METER, folder / "gpus", after]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: value for name, value in json.loads(done.stdout).items() if name.startswith("gpu")}


@pytest.mark.parametrize("visible", ["1", "GPU-b", None])
def test_the_gpu_of_a_run_is_measured(library, tmp_path, visible):
    facts = measured(
        library,
        tmp_path,
        before="GPU-a H100 500 0 0 OTHER\nGPU-b H100 1000000 80 2000 OWN\n",
        after="GPU-a H100 900 90 70000 OTHER\nGPU-b H100 4600000 20 3000 OWN\n",
        visible=visible,
    )
    assert facts["gpus"] == 1 and facts["gpu_kwh"] == pytest.approx(0.001) and facts["gpu_peak_mb"] == 3000
    assert 20 < facts["gpu_percent"] < 80


@pytest.mark.parametrize(
    ("line", "visible", "expected"),
    [
        ("GPU-a H100 7 50 100 OTHER\n", "0", {"gpus": 1, "gpu_shared": True}),  # another program is on it
        ("GPU-a H100 7 50 100 OTHER\n", None, {}),  # only another program is
        ("GPU-a H100 7 50 100 OWN\n", "", {}),  # hidden from the run
        ("GPU-a H100 7 50 100 OWN\n", "MIG-1", {}),  # a part of one
        ("GPU-a H100 -1 50 100 OWN\n", "0", {"gpus": 1, "gpu_percent": 50.0, "gpu_peak_mb": 100}),  # no counter
        ("GPU-a H100 7 50 100 0\n", "0", {"gpus": 1, "gpu_percent": 50.0, "gpu_peak_mb": 100, "gpu_kwh": 0.0}),  # idle
        ("GPU-a H100 7 5 1 OWN\nGPU-b T4 7 50 100 0\n", "1", {}),  # CUDA and NVML may number them differently
        ("", "0", {}),
    ],
)
def test_a_gpu_whose_numbers_are_not_those_of_the_run_gives_none(library, tmp_path, line, visible, expected):
    assert measured(library, tmp_path, line, line, visible) == expected


def test_no_thread_is_left_without_counters(tmp_path):
    before = threading.active_count()
    Meter(tmp_path).facts()
    assert threading.active_count() == before


numbers = st.floats(0, 1e6)
usages = st.builds(Usage, numbers, st.none() | numbers, numbers, st.none() | numbers, st.none() | numbers)


@given(st.lists(usages, max_size=5))
def test_a_sum_lacks_what_one_part_lacks(parts):
    whole = total(parts)
    assert whole.seconds == pytest.approx(sum(part.seconds for part in parts))
    for name in ("cpu_seconds", "cpu_kwh", "gpu_kwh"):
        values = [getattr(part, name) for part in parts]
        expected = None if None in values else pytest.approx(sum(values))
        assert getattr(whole, name) == expected


def test_a_run_of_two_attempts_uses_what_both_used():
    first = usage_of({"seconds": 10.0, "cpu_seconds": 20.0, "gpus": 1, "gpu_percent": 50.0, "gpu_peak_mb": 7}, 1, 1)
    second = usage_of({"seconds": 30.0, "cpu_seconds": 40.0, "gpus": 1, "gpu_percent": 90.0, "gpu_peak_mb": 5}, 1, 1)
    whole = total_usage([first, second])
    assert whole == {
        "seconds": 40,
        "cpu_seconds": 60,
        "gpus": 1,
        "gpu_seconds": 40,
        "gpu_percent": 80,
        "gpu_peak_mb": 7,
    }
    assert total_usage([]) == {} and total_usage([{}]) == {}
    killed = total_usage([first, {}])
    assert killed["unrecorded"] == 1 and killed["seconds"] == 10
    assert "10 s of runs (without 1 attempt that left no record)" in Usage.of(killed).text()


def test_of_several_machines_only_the_time_is_known(monkeypatch):
    facts = {"seconds": 10.0, "cpu_seconds": 20.0, "gpu_kwh": 1.0, "gpus": 8}
    assert usage_of(facts, 16, 2) == {"seconds": 10.0, "gpus": 16, "gpu_seconds": 160.0}
    monkeypatch.setenv("PLAT_GPUS", "0.5")
    assert usage_of({"seconds": 10.0, "gpus": 1}, 1, 1)["gpu_seconds"] == 5.0


def test_money_and_co2_are_at_the_rates_of_the_user():
    used = Usage(3600.0, 7200.0, 7200.0, 0.5, 1.5)
    rates = Rates(gpu_hour=2.0, cpu_hour=0.1, kwh=0.5, kg_co2_per_kwh=0.4, currency="EUR")
    assert rates.to_json(used) == {"money": pytest.approx(5.2), "currency": "EUR", "money_without": [], "kg_co2": 0.8}
    assert used.text(rates) == (
        "60.0 min of runs, 2.0 h of CPU time, 2 GPU-hours, 2 kWh of GPUs, processors and memory, 5.20 EUR, 0.8 kg CO2"
    )


def test_what_is_not_measured_is_said_and_not_counted_as_nothing():
    used, rates = Usage(3600.0, None, 3600.0, None, None, True), Rates(gpu_hour=2.0, kwh=0.5, currency="EUR")
    assert used.kwh is None and rates.to_json(used)["money_without"] == ["electricity"]
    text = used.text(rates)
    assert "1 GPU-hours (shared with other programs)" in text
    assert "2.00 EUR (without electricity, which was not measured)" in text and "kWh" not in text
    assert Usage(60.0, None).text(Rates(cpu_hour=1.0)).endswith("cost unknown, because CPU time was not measured")
    assert "CO2 unknown" in used.text(Rates(kg_co2_per_kwh=0.4))
    assert "less than 0.01 EUR" in Usage(1.0, 1.0).text(Rates(cpu_hour=1e-3, currency="EUR"))
    only_cpu = Usage(3600.0, 10.0, 3600.0, 0.1, None)
    assert "0.1 kWh of processors and memory, not of GPUs" in only_cpu.text()
