"""Dispatchers are checked when they are looked up: a wrong plug-in gives one message before anything runs."""

from importlib.metadata import EntryPoint

import pytest
from toy_runs import toy_run

from plat.dispatch import registry
from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.driver import sweep
from plat.dispatch.setting import Setting
from plat.dispatch.submitting import hand_over
from plat.errors import PluginError, SpecError
from plat.store.run_directory.creation import create
from plat.words.states import RunStatus


class Minimal(Dispatcher):
    """Ends each run at once."""

    farewell = "stopping"

    def submit(self, runs):
        return []

    def poll(self, timeout=0.0):
        return []

    def active(self):
        return False

    def stop(self):
        self.stopping = True

    kill = close = stop

    def cancel(self, handles):
        pass


class Elsewhere(Minimal):
    on_this_machine = False


class WithoutClose(Minimal):
    close = Dispatcher.close


class WrongPoll(Minimal):
    def poll(self):
        return []


def publish(monkeypatch, kind):
    points = {"mine": EntryPoint("mine", f"{__name__}:{getattr(kind, '__name__', kind)}", registry.GROUP)}
    monkeypatch.setattr(registry, "published", lambda group: points)
    monkeypatch.setattr(registry, "load_plugin", lambda group, name: kind)


def opened(home):
    return registry.open_dispatcher("mine", Setting(home, create=lambda run: home.run(run.id)))


def test_a_subclass_with_the_abstract_methods_is_a_dispatcher(monkeypatch, home):
    publish(monkeypatch, Minimal)
    assert isinstance(opened(home), Minimal)
    assert registry.located("mine", ["cluster=a"], []) == ("cluster=a",)
    kind = registry.find_dispatcher("mine")
    assert kind.task_states(home, True) == {} and not kind.detaches_by_default
    with pytest.raises(SpecError, match="chooses where a scheduler"):
        kind.check_settings(["cluster.gpus=1"], False)
    with pytest.raises(SpecError, match="so it cannot detach"):
        kind.check_settings([], True)


def test_an_error_while_opening_is_the_plugins_with_its_line(monkeypatch, home):
    class Unreachable(Minimal):
        def __init__(self, setting):
            raise RuntimeError("no socket")

    publish(monkeypatch, Unreachable)
    with pytest.raises(PluginError, match="the dispatcher 'mine' failed: RuntimeError: no socket") as caught:
        opened(home)
    assert str(caught.value.where).startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("kind", "what"),
    [(WithoutClose, "no method close()"), (WrongPoll, "poll() cannot be called as poll(timeout)")],
)
def test_a_wrong_method_is_named_with_its_place(monkeypatch, home, kind, what):
    publish(monkeypatch, kind)
    with pytest.raises(PluginError) as caught:
        opened(home)
    assert what in caught.value.what and kind.__name__ in caught.value.what
    assert __file__ in caught.value.where and "plat.dispatch.dispatcher.Dispatcher" in caught.value.fix


def test_a_class_without_its_attributes_is_told_to_call_super(monkeypatch, home):
    class Forgetful(Minimal):
        def __init__(self, setting):
            self.home = setting.home

    publish(monkeypatch, Forgetful)
    with pytest.raises(PluginError, match="it has no slots, stopping, notices, jobs") as caught:
        opened(home)
    assert __file__ in caught.value.where and "super().__init__(setting)" in caught.value.fix


def test_a_wrong_method_of_the_class_is_found_before_the_dispatcher_is_opened(monkeypatch):
    class WrongCheck(Minimal):
        @classmethod
        def check_reachable(cls):
            pass

    publish(monkeypatch, WrongCheck)
    with pytest.raises(PluginError) as caught:
        registry.find_dispatcher("mine")
    assert "check_reachable() cannot be called as check_reachable(cluster)" in caught.value.what
    assert __file__ in caught.value.where


def test_what_is_no_dispatcher_is_refused(monkeypatch):
    publish(monkeypatch, "a text")
    with pytest.raises(PluginError, match="is a str that is no subclass of Dispatcher"):
        registry.find_dispatcher("mine")
    with pytest.raises(SpecError, match="unknown dispatcher"):
        registry.find_dispatcher("other")


def test_an_error_of_a_method_is_the_plugins_too(monkeypatch, home):
    class Broken(Minimal):
        def submit(self, runs):
            raise RuntimeError("no room")

    publish(monkeypatch, Broken)
    with pytest.raises(PluginError, match="submit of the dispatcher 'mine' failed: RuntimeError: no room") as caught:
        sweep(home, [toy_run(seed=0)], on="mine")
    assert str(caught.value.where).startswith(f"{__file__}:")


def test_a_run_that_a_scheduler_has_is_left_alone_by_a_plug_in_of_this_machine(monkeypatch, home):
    run = toy_run(seed=0)
    create(home, run, "")
    hand_over(home, {"scheduler": "slurm", "cluster": "c"}, [[run]], lambda *_: {"session": "one"}, lambda *_: "job")
    publish(monkeypatch, Minimal)
    ends = sweep(home, [run], on="mine").ends
    assert ends[run.id].state == RunStatus.QUEUED
    publish(monkeypatch, Elsewhere)
    assert sweep(home, [run], on="mine").ends[run.id].state == RunStatus.MISSING  # it was offered to the dispatcher


def test_a_dispatcher_that_claims_to_execute_searches_must_do_it(monkeypatch, home):
    publish(monkeypatch, Minimal)
    with pytest.raises(PluginError, match="Minimal sets executes_searches and has no open_search"):
        registry.find_dispatcher("mine").open_search(Setting(home, create=lambda run: home.run(run.id)), None)
