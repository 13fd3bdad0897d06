"""Cluster profiles: where they are found, what their options mean, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from plat.dispatch.slurm.profile import Profile, load_profile, with_profile_path
from plat.errors import SpecError
from plat.spec.reading import yaml_reader
from plat.trainer.resources import Resources

PROFILES = sorted((Path(__file__).parents[3] / "slurm").glob("*.yaml"))


def write(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return [f"cluster={path}"]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_the_profiles_that_come_with_plat_can_be_used(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load_profile([f"cluster={path.stem}"]).name == path.stem


def test_the_template_explains_every_option_and_gives_its_default():
    template = next(path for path in PROFILES if path.stem == "template")
    names = {field.name for field in dataclasses.fields(Profile)} - {"name", "further", "old_names"}
    assert set(yaml_reader.read(template).data) == names
    assert dataclasses.replace(load_profile([f"cluster={template}"]), name="default") == Profile()


@pytest.mark.parametrize(
    ("text", "what", "place", "fix"),
    [
        ("slurm_partiton: gpu\n", "submitit: Unknown argument 'partiton'", ":1:1", "did you mean 'slurm_partition'"),
        ("slurm_name: mine\n", "plat sets submitit's parameter 'slurm_name' itself", ":1:1", "leave it out"),
        ("slurm_additional_parameters: {job_name: mine}\n", "sbatch's option 'job_name' itself", ":1:", "leave it out"),
        ("options: {time: 5}\n", "sbatch's option 'time' itself", ":1:", "timeout_min"),
        ("partiton: gpu\n", "unknown option 'partiton'", ":1:1", "did you mean 'slurm_partition'"),
        ("slurm_comment: mine\n", "plat sets submitit's parameter 'slurm_comment' itself", ":1:1", "leave it out"),
        ("time: 5\ntimeout_min: 6\n", "time and timeout_min are two names of one setting", ":2:1", "timeout_min"),
        (
            "slurm_mem: 5G\nmemory: 6G\n",
            "slurm_mem and memory are two names of one",
            ":2:1",
            "keep one of them: mem_gb",
        ),
        ("account: a\ntime: soon\n", "time must be minutes", ":2:7", "template"),
        ("mem_gb: -1\n", "mem_gb must be GB", ":1:9", "template"),
        ("memory: 16 gigs\n", "memory must be MiB", ":1:9", "template"),
        ("mem_gb: .inf\n", "mem_gb must be GB", ":1:9", "template"),
        ("slurm_mem: -1\n", "slurm_mem must be MiB", ":1:12", "template"),
        ("command_timeout: 0\n", "command_timeout must be a number of seconds above 0", ":1:18", "template"),
        ("slurm_timeout_min: 5\ntimeout_min: 6\n", "are two names of one setting", ":2:1", "timeout_min"),
        ("environment: {A B: 1}\n", "environment: 'A B' cannot be a name here", ":1:14", "letters, digits and _"),
        ("environment: {A-B: 1}\n", "environment: 'A-B' cannot be a name here", ":1:14", "letters, digits and _"),
        ("options: {mail type: A}\n", "options: 'mail type' cannot be a name here", ":1:", "letters, digits and _"),
        ("options: {requeue: true}\n", "sbatch's option 'requeue' itself", ":1:", "leave it out"),
        ("modules: python\n", "modules must be a list of texts", ":1:10", "template"),
        ("environment: [A]\n", "environment must be a mapping", ":1:14", "template"),
        ("models:\n  big: {tim: 3}\n", "unknown option 'tim' of the model 'big'", ":2:3", "timeout_min"),
        ("- partition\n", "must be a mapping of options", ":1:1", "template"),
        ("a: [\n", "not valid YAML", ":2:1", ""),
    ],
)
def test_a_wrong_profile_says_where(tmp_path, text, what, place, fix):
    with pytest.raises(SpecError, match=what) as error:
        load_profile(write(tmp_path, text))
    assert str(tmp_path / "mine.yaml") + place in error.value.where and fix in error.value.fix


def test_a_profile_that_is_not_there_and_a_wrong_value_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="no cluster profile 'cpu_clutser'") as error:
        load_profile(["cluster=cpu_clutser"])
    assert "did you mean 'cpu_cluster'" in error.value.fix
    with pytest.raises(SpecError, match="max_parallel must be") as error:
        load_profile(["cluster.max_parallel=all"])
    assert "cluster.max_parallel=all" in error.value.where


def test_the_command_line_changes_a_value_and_a_local_file_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "lab.yaml").write_text('time: "1-02:30"\nmemory: 1.5G\npartition: here\n')
    profile = load_profile(["cluster=lab", "cluster.partition=there"])
    assert (profile.timeout_min, profile.mem_gb, profile.slurm_partition) == (1440 + 150, 1.5, "there")
    assert set(profile.old_names) == {"time", "memory", "partition"}


def test_every_name_of_submitit_is_taken_and_the_old_ones_mean_the_same(tmp_path):
    new = "slurm_partition: gpu\ntimeout_min: 90\nmem_gb: 2\nslurm_nodelist: n[1-3]\nslurm_mail_user: me\n"
    old = 'partition: gpu\nslurm_time: "1:30:00"\nmemory: 2048\nslurm_nodelist: n[1-3]\nslurm_mail_user: me\n'
    ours, theirs = load_profile(write(tmp_path, new)), load_profile(write(tmp_path, old))
    assert ours == dataclasses.replace(theirs, old_names=()) and theirs.old_names == ("partition", "memory")
    assert ours.further == {"slurm_nodelist": "n[1-3]", "slurm_mail_user": "me"}


def test_a_profile_is_found_above_the_experiment_file(tmp_path, monkeypatch):
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    file = repository / "experiments" / "more" / "table.yaml"
    for folder in (repository, repository / "experiments", elsewhere):
        (folder / "slurm").mkdir(parents=True)
    (repository / "slurm" / "lab.yaml").write_text("partition: root\n")
    (repository / "slurm" / "far.yaml").write_text("partition: root\n")
    (repository / "experiments" / "slurm" / "lab.yaml").write_text("partition: nearer\n")
    monkeypatch.chdir(elsewhere)

    def partition(name):
        return load_profile(with_profile_path([f"cluster={name}", "cluster.qos=q"], [file])).slurm_partition

    assert (partition("lab"), partition("far")) == ("nearer", "root")
    assert load_profile(with_profile_path(["cluster=lab"], [file])).name == "lab"
    assert partition(repository / "slurm" / "lab.yaml") == "root", "a path is taken as it is"
    (elsewhere / "slurm" / "lab.yaml").write_text("partition: here\n")
    assert partition("lab") == "here", "the working directory goes first"
    with pytest.raises(SpecError, match="no cluster profile 'lap'") as error:
        with_profile_path(["cluster=lap"], [file])
    for searched in (elsewhere / "slurm", repository / "slurm", repository / "experiments" / "slurm"):
        assert str(searched) in error.value.where
    assert "did you mean 'lab'" in error.value.fix


def test_what_a_run_asks_for_is_its_trainers_then_the_profiles_then_its_models():
    profile = Profile(timeout_min=60, mem_gb=1000 / 1024, models={"big": {"timeout_min": 600, "gpus_per_node": 4}})
    stated = {"threads": 2, "gpus": 1, "minutes": 5}
    assert profile.resources(stated, "small") == Resources(2, 1, 1000, 60)
    assert profile.resources(stated, "big") == Resources(2, 4, 1000, 600)


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("slurm_mem: 4000", "mem_gb", 4000 / 1024),  # as sbatch's --mem
        ("slurm_mem: 4G", "mem_gb", 4),
        ("mem_gb: 512K", "mem_gb", 1 / 1024),
        ("slurm_mem_gb: 4", "mem_gb", 4),
        ('timeout_min: "30:00"', "timeout_min", 30),
        ('slurm_time: "30:00"', "timeout_min", 30),
        ('slurm_time: "1-12"', "timeout_min", 2160),
        ("slurm_timeout_min: 90", "timeout_min", 90),
        ("slurm_wckey: course", "further", {"slurm_wckey": "course"}),
        ("slurm_exclusive: false", "further", {"slurm_exclusive": None}),
        ("models: {big: {slurm_mem: 4096}}", "models", {"big": {"mem_gb": 4}}),
        (
            "slurm_additional_parameters: {exclusive: true, contiguous: false, nice: 5}",
            "slurm_additional_parameters",
            {"exclusive": True, "nice": "5"},
        ),
        ("environment: {A: true}", "environment", {"A": "true"}),
    ],
)
def test_a_value_means_what_it_means_in_slurm(tmp_path, text, option, value):
    assert getattr(load_profile(write(tmp_path, text + "\n")), option) == value


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("modules=[a/1.2, b]", "modules", ("a/1.2", "b")),
        ("modules=a", "modules", ("a",)),
        ("setup=[ -f x ] && . x", "slurm_setup", ("[ -f x ] && . x",)),
        ("environment={A: 1}", "environment", {"A": "1"}),
        ("slurm_nodelist=n[1-3]", "further", {"slurm_nodelist": "n[1-3]"}),
    ],
)
def test_lists_and_mappings_on_the_command_line(text, option, value):
    assert getattr(load_profile([f"cluster.{text}"]), option) == value


def test_a_list_on_the_command_line_that_is_no_yaml():
    with pytest.raises(SpecError, match="not valid YAML") as error:
        load_profile(["cluster.modules=[a, {b]"])
    assert error.value.where == "the command line (cluster.modules=[a, {b])"
