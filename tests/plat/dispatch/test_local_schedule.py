"""The order in which jobs start, on a simulated machine: nothing idles, ready runs come first, long builds not last."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from toy_runs import toy_run

from plat.dispatch.dispatcher import ENDED, RUNNING
from plat.dispatch.local.schedule import LocalJob, Schedule, make_jobs


def every(job: LocalJob) -> bool:
    """Every job fits: none needs a GPU."""
    return True


@dataclass
class Simulation:
    """Jobs with known lengths on some slots. `starts` and `ends` by job id, in simulated seconds."""

    slots: int
    lengths: dict[str, float]
    starts: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)

    def go(self, jobs: list[LocalJob]) -> None:
        schedule, now, running = Schedule(), 0.0, []
        schedule.add(jobs, lambda job: self.lengths[job.id])
        by_id = {job.id: job for job in jobs}
        while True:
            while len(running) < self.slots:
                preparing = [by_id[name] for _, name in running if by_id[name].kind == "prepare"]
                job = schedule.next(self.slots, len(preparing), every)
                if job is None:
                    break
                job.state, self.starts[job.id] = RUNNING, now
                heapq.heappush(running, (now + self.lengths[job.id], job.id))
                if job.kind == "prepare" and ready(jobs):
                    assert len(preparing) < self.slots // 2, "runs are ready, and more than half of the slots prepare"
            startable = ready(jobs) or [job for job in jobs if job.kind == "prepare" and job.state == "queued"]
            assert len(running) == self.slots or not startable, "a slot is idle"
            if not running:
                return
            now, name = heapq.heappop(running)
            by_id[name].state, by_id[name].outcome, self.ends[name] = ENDED, "finished", now
            if by_id[name].kind == "prepare":
                schedule.unblock(by_id[name])


def ready(jobs: list[LocalJob]) -> list[LocalJob]:
    return [
        job
        for job in jobs
        if job.kind == "run" and job.state == "queued" and (job.needs is None or job.needs.state == ENDED)
    ]


RUNS = st.lists(st.tuples(st.sampled_from(["", "", "a", "b", "c", "d"]), st.integers(1, 9)), min_size=1, max_size=25)


@given(RUNS, st.lists(st.integers(1, 60), min_size=4, max_size=4), st.integers(1, 5))
def test_no_slot_idles_and_every_job_is_started_once(runs: list[tuple[str, int]], builds: list[int], slots: int):
    jobs = make_jobs([toy_run(seed=seed, recipe=recipe) for seed, (recipe, _) in enumerate(runs)])
    lengths = {job.id: float(runs[job.run.config["seed"]][1]) for job in jobs if job.kind == "run"}
    lengths |= {job.id: float(builds["abcd".index(job.run.config["recipe"])]) for job in jobs if job.kind == "prepare"}
    simulation = Simulation(slots, lengths)
    simulation.go(jobs)
    assert simulation.ends.keys() == {job.id for job in jobs}
    chain = max(lengths[job.id] + (lengths[job.needs.id] if job.needs else 0.0) for job in jobs)
    # Graham's bound for schedules that never leave a slot idle without need.
    assert max(simulation.ends.values()) <= sum(lengths.values()) / slots + (1 - 1 / slots) * chain + 1e-9


def test_table_4_with_one_base_to_build_per_model():
    """Six bases of 20 to 80 s and 72 runs of 6 s on two slots, of which those of the first model are ready."""
    runs = [toy_run(seed=seed, recipe=["", *"abcde"][seed // 12]) for seed in range(72)]
    jobs = make_jobs(runs)
    builds = iter([20.0, 35.0, 50.0, 65.0, 80.0])
    lengths = {job.id: next(builds) if job.kind == "prepare" else 6.0 for job in jobs}
    simulation = Simulation(2, lengths)
    simulation.go(jobs)
    assert min(end for name, end in simulation.ends.items() if not name.startswith("prepare")) == 6.0
    assert max(simulation.ends.values()) <= sum(lengths.values()) / 2 + 6.0, "both slots are busy to the end"


def test_a_job_that_was_cancelled_is_passed_over_and_one_that_failed_goes_first():
    jobs = make_jobs([toy_run(seed=seed) for seed in range(3)])
    schedule = Schedule()
    schedule.add(jobs, lambda job: 1.0)
    jobs[0].state = ENDED
    assert schedule.next(1, 0, every) is jobs[1]
    schedule.put_back(jobs[1])
    assert [schedule.next(1, 0, every) for _ in range(3)] == [jobs[1], jobs[2], None]


def test_a_run_that_finds_no_free_gpu_lets_others_pass():
    jobs = make_jobs([toy_run(gpus=2), toy_run(gpus=1), toy_run(gpus=0)])
    schedule = Schedule()
    schedule.add(jobs, lambda job: 1.0)

    def started(free: int) -> LocalJob | None:
        return schedule.next(3, 0, lambda job: job.gpus <= free)

    assert [started(1), started(0), started(0)] == [jobs[1], jobs[2], None]
    assert started(2) is jobs[0]
