"""Dispatchers are checked when they are looked up: a wrong plug-in gives one message before anything runs."""

from importlib.metadata import EntryPoint

import pytest
from toy_runs import toy_run

from plat.dispatch import registry
from plat.dispatch.dispatcher_spec import DispatcherSpec, Setting
from plat.dispatch.driver import sweep
from plat.dispatch.submitting import hand_over
from plat.errors import PluginError, SpecError
from plat.store.run_directory.creation import create
from plat.words.states import RunStatus


class Minimal:
    """Ends each run at once."""

    slots, stopping, farewell, detachable = 1, False, "stopping", False

    def __init__(self):
        self.jobs, self.notices = {}, []

    def submit(self, runs):
        return []

    def poll(self, timeout=0.0):
        return []

    def active(self):
        return False

    handed_over = active

    def stop(self):
        self.stopping = True

    kill = close = stop

    def cancel(self, handles):
        pass


class WithoutClose(Minimal):
    close = None


class WrongPoll(Minimal):
    def poll(self):
        return []


def publish(monkeypatch, spec):
    points = {"mine": EntryPoint("mine", "a_package:SPEC", registry.GROUP)}
    monkeypatch.setattr(registry, "published", lambda group: points)
    monkeypatch.setattr(registry, "load_plugin", lambda group, name: spec)


def opened(home):
    return registry.open_dispatcher("mine", Setting(home, create=lambda run: home.run(run.id)))


def test_a_spec_with_one_function_is_a_dispatcher(monkeypatch, home):
    publish(monkeypatch, DispatcherSpec(lambda setting: Minimal()))
    assert isinstance(opened(home), Minimal)
    assert registry.located("mine", ["cluster=a"], []) == ("cluster=a",)
    spec = registry.find_dispatcher("mine")
    assert spec.task_states(home, True) == {} and not spec.detaches_by_default
    with pytest.raises(SpecError, match="chooses where a scheduler"):
        spec.check_settings(["cluster.gpus=1"], False)
    with pytest.raises(SpecError, match="so it cannot detach"):
        spec.check_settings([], True)


def test_an_error_while_opening_is_the_plugins_with_its_line(monkeypatch, home):
    def open_dispatcher(setting):
        raise RuntimeError("no socket")

    publish(monkeypatch, DispatcherSpec(open_dispatcher))
    with pytest.raises(PluginError, match="the dispatcher 'mine' failed: RuntimeError: no socket") as caught:
        opened(home)
    assert str(caught.value.where).startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("kind", "what"),
    [(WithoutClose, "no function close()"), (WrongPoll, "poll() cannot be called as poll(timeout)")],
)
def test_a_wrong_method_is_named_with_its_place(monkeypatch, home, kind, what):
    publish(monkeypatch, DispatcherSpec(lambda setting: kind()))
    with pytest.raises(PluginError) as caught:
        opened(home)
    assert what in caught.value.what and kind.__name__ in caught.value.what
    assert __file__ in caught.value.where and "plat.dispatch.dispatcher.Dispatcher" in caught.value.fix


def test_a_wrong_function_of_a_spec_is_found_before_the_dispatcher_is_opened(monkeypatch):
    publish(monkeypatch, DispatcherSpec(lambda setting: Minimal(), check_reachable=lambda: None))
    with pytest.raises(PluginError) as caught:
        registry.find_dispatcher("mine")
    assert "check_reachable() cannot be called as check_reachable(cluster)" in caught.value.what
    assert __file__ in caught.value.where


def test_what_is_no_spec_is_refused(monkeypatch):
    publish(monkeypatch, "a text")
    with pytest.raises(PluginError, match="is a str, not a DispatcherSpec"):
        registry.find_dispatcher("mine")
    with pytest.raises(SpecError, match="unknown dispatcher"):
        registry.find_dispatcher("other")


def test_an_error_of_a_method_is_the_plugins_too(monkeypatch, home):
    class Broken(Minimal):
        def submit(self, runs):
            raise RuntimeError("no room")

    publish(monkeypatch, DispatcherSpec(lambda setting: Broken()))
    with pytest.raises(PluginError, match="submit of the dispatcher 'mine' failed: RuntimeError: no room") as caught:
        sweep(home, [toy_run(seed=0)], on="mine")
    assert str(caught.value.where).startswith(f"{__file__}:")


def test_a_run_that_a_scheduler_has_is_left_alone_by_a_plug_in_of_this_machine(monkeypatch, home):
    run = toy_run(seed=0)
    create(home, run, "")
    hand_over(home, {"scheduler": "slurm", "cluster": "c"}, [[run]], lambda *_: {"session": "one"}, lambda *_: "job")
    publish(monkeypatch, DispatcherSpec(lambda setting: Minimal()))
    ends = sweep(home, [run], on="mine").ends
    assert ends[run.id].state == RunStatus.QUEUED
    publish(monkeypatch, DispatcherSpec(lambda setting: Minimal(), on_this_machine=False))
    assert sweep(home, [run], on="mine").ends[run.id].state == RunStatus.MISSING  # it was offered to the dispatcher
