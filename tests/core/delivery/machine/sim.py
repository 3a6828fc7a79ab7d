"""One history by a seed: the agent, the people and the faults act at random; the courier is ours.

The driver is what the Trio shell is: it performs effects and decides nothing. A kill drops every
run between any two effects, also between the broker's applying a post and our hearing of it.
"""

import json
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import msgspec

from agentconnect.core.delivery import bindings as rules
from agentconnect.core.delivery import intake, runs
from agentconnect.core.delivery.answers import Answer, Retry
from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.deciding import Unreadable
from agentconnect.core.delivery.effects import (
    Begin,
    Consult,
    Effect,
    Idle,
    Judge,
    PostFile,
    PostText,
    Recorded,
    Save,
    Scan,
    Tell,
    Wait,
    Withdraw,
)
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.delivery.request import DeliverRequest, Invalid, read_deliver
from agentconnect.core.delivery.runs import Active, Answered, Joined, Other, Runs, Started
from agentconnect.core.task import SessionKey, Tier
from tests.core.delivery.machine.broker import Broker
from tests.core.delivery.machine.checks import Checks, Sent, Violation
from tests.core.delivery.machine.store import Disk, Store
from tests.core.delivery.machine.world import PEOPLE, SECRET, ModelWorld

STEPS = 70
ROOMS = ("!a:h", "!b:h")


@dataclass
class Task:
    """A run, and the effect it waits for. ``reply``: the response that is under way to it."""

    active: Active[DeliverRequest]
    run: Generator[Effect, Any, None]
    request: DeliverRequest | None
    effect: Effect | None = None
    wake: float | None = None
    reply: Reply | None = None
    scanned: bool = False
    saw_unreadable: bool = False


class Sim:
    """One history."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))
        self.disk = Disk()
        self.broker = Broker(self.rng)
        self.world = ModelWorld(self.rng)
        self.checks = Checks(self.disk)
        self.world.listed = frozenset(self.rng.sample(PEOPLE, self.rng.randrange(3)))
        self.world.unchecked = self.rng.random() < 0.5
        self.trace: list[str] = []
        self.known: list[Binding] = []
        self.ids = 0
        self._start()

    def run(self, steps: int = STEPS) -> None:
        """The history, then a day of quiet in which everything has to end."""
        for _ in range(steps):
            self._act()
            self._work(self.rng.randrange(12))
        self._settle()

    # the process

    def _start(self) -> None:
        self.store = Store(self.disk, self.rng.randbytes)
        self.runs: Runs[DeliverRequest] = Runs()
        self.tasks: list[Task] = []
        self.world.stopping = False
        self.resumed = False
        self._heal()

    def _heal(self) -> None:
        """What the shell does at start, and as soon as the store can be read after all."""
        before = self.disk.worker_id if self.disk.there else None
        self.world.readable = self.store.usable()
        if before:
            self.checks.need(before == self.disk.worker_id, "a new worker id over a store")
        if self.world.readable and not self.resumed:
            self.resumed = True
            self.store.sweep(self.world.wall_now(), self.world.listed)
            for entry in self.store.unfinished():
                active = self.runs.resume(entry)
                if active is not None:
                    self._begin(active, intake.resume(entry, self.world), None)

    def kill(self) -> None:
        self.trace.append("kill")
        self._start()

    def _begin(
        self,
        active: Active[DeliverRequest],
        run: Generator[Effect, Any, None],
        request: DeliverRequest | None,
    ) -> None:
        task = Task(active, run, request)
        self.tasks.append(task)
        self._feed(task, None)

    def _feed(self, task: Task, result: object) -> None:
        try:
            task.effect = task.run.send(result)
        except StopIteration:
            self.tasks.remove(task)
            for request in self.runs.over(task.active):
                self._told(request, Retry(retry_after_s=1, reason="over"), readable=True)
            return
        task.wake = None
        task.active.idle = task.effect if isinstance(task.effect, Idle) else None
        if isinstance(task.effect, PostText | PostFile):
            self.checks.need(self.world.keyed, "a post was begun while keys are not trusted")
        if isinstance(task.effect, Idle | Wait):
            self.checks.need(task.effect.seconds >= 0, "a wait into the past")
            task.wake = self.world.real + task.effect.seconds

    def _work(self, steps: int) -> None:
        for _ in range(steps):
            ready = [t for t in self.tasks if t.wake is None or t.wake <= self.world.real]
            if not ready:
                return
            self._step(self.rng.choice(ready))

    def _step(self, task: Task) -> None:
        effect, world = task.effect, self.world
        match effect:
            case Consult():
                found = self.store.consult(effect.id, effect.binding)
                task.saw_unreadable = isinstance(found, Unreadable)
                self._feed(task, found)
            case Scan() | Judge():
                task.scanned = task.scanned or isinstance(effect, Scan)
                self._feed(task, world.judged(effect))
            case Begin():
                begun = self.store.begin(effect.entry, world.wall_now())
                task.saw_unreadable = isinstance(begun, Unreadable)
                if isinstance(begun, Recorded):
                    self._begun(task, effect)
                self._feed(task, begun)
            case Save():
                saved = self.store.save(effect.entry)
                task.saw_unreadable = isinstance(saved, Unreadable)
                if isinstance(saved, Recorded):
                    self.checks.saved(effect.entry, world.real, world.wall_now())
                self._feed(task, saved)
            case PostText() | PostFile():
                self._post(task, effect)
            case Wait() | Idle():
                self._feed(task, None)
            case Tell():
                for request in self.runs.told(task.active, effect.answer):
                    self._told(request, effect.answer, readable=not task.saw_unreadable)
                self._feed(task, None)
            case Withdraw():
                world.keyed = False
                self._feed(task, None)

    def _begun(self, task: Task, effect: Begin) -> None:
        binding = self.disk.bindings.get(effect.entry.binding)
        world = self.world
        allowed = (
            binding is not None
            and binding.dropped_at is None
            and (not binding.sender or (binding.sender in world.listed and world.unchecked))
        )
        assert task.request is not None
        now = Sent(task.request, binding.room, binding.folder) if binding else Sent(task.request)
        self.checks.begins(
            effect,
            now,
            world.real,
            allowed=allowed,
            scanned=task.scanned or not world.circumstances().guarded,
        )

    def _post(self, task: Task, post: PostText | PostFile) -> None:
        """In two steps: the broker applies it; later the worker hears of it."""
        if task.reply is not None:
            reply, task.reply = task.reply, None
            self._feed(task, reply)
            return
        if isinstance(post, PostFile) and (why := self.world.unfit(post)):
            task.reply = Reply(sent=False, unfit=why)
            return
        part = self.checks.posting(task.active.id, post, self.world.real)
        if isinstance(post, PostText) and post.text is None:
            text = self.store.text(post.id)
            task.saw_unreadable = isinstance(text, Unreadable)
            if isinstance(text, Unreadable):
                self._feed(task, text)
                return
            post = msgspec.structs.replace(post, text=text)
        task.reply, event = self.broker.post(post, self.world.real)
        self.trace.append(f"post {task.active.id}/{part} → {task.reply.status} {task.reply.echo}")
        if event is not None:
            self.checks.landed(task.active.id, part, event, self.world.real)

    def _told(self, request: DeliverRequest, answer: Answer, *, readable: bool) -> None:
        self.trace.append(f"told {request.id}: {answer}")
        self.checks.told(request, answer, self.world.real, readable=readable)

    # the world

    def _act(self) -> None:
        name = self.rng.choices(tuple(_ACTIONS), tuple(_ACTIONS.values()))[0]
        self.trace.append(name)
        getattr(self, f"_do_{name}")()

    def _do_turn(self) -> None:
        """A Turn binds or renews."""
        sender = self.rng.choice(("", "", *PEOPLE))
        tier = Tier.GUEST if sender else Tier.OWNER
        key = SessionKey(room=self.rng.choice(ROOMS), tier=tier, sender=sender)
        if self.world.keyed and rules.may_bind(key, unchecked=self.world.unchecked):
            made = self.store.bind(key, self.world.wall_now())
            if made is not None and self.disk.sound:
                self.known = [b for b in self.known if b.id != made.id] + [made]

    def _do_send(self) -> None:
        if not self.known:
            self._do_turn()
            return
        binding = self.rng.choice(self.known)
        self.ids += 1
        files = []
        for number in range(self.rng.choice((0, 0, 1, 2))):
            uri = f"file:///export/{binding.folder}/{self.ids}-{number}"
            self.world.files[uri] = self.rng.choice(("a report", "a report", SECRET))
            if self.rng.random() < 0.1:  # of another binding
                uri = self.rng.choice(sorted(self.world.files))
            files.append({"uri": uri})
        text = self.rng.choice((None, "done", "done", SECRET)) if files else "done"
        request = _request(f"d{self.ids}", binding.id, text, files)
        self.checks.sent[request.id] = Sent(request, binding.room, binding.folder)
        self._arrive(request)

    def _do_resend(self) -> None:
        if self.checks.sent:
            # the latest ones most of all
            names = list(self.checks.sent)
            name = names[-1 - min(int(self.rng.expovariate(0.4)), len(names) - 1)]
            self._arrive(self.checks.sent[name].request)

    def _do_resend_changed(self) -> None:
        if self.checks.sent and self.known:
            sent = self.rng.choice(list(self.checks.sent.values()))
            if sent.begun_at is None:
                return  # not refused yet: the agent may still say what it means by the id
            binding = self.rng.choice((sent.request.binding, self.rng.choice(self.known).id))
            text = self.rng.choice((sent.request.text, "other"))
            files = [{"uri": file.uri} for file in sent.request.files]
            if text or files:
                self._arrive(_request(sent.request.id, binding, text, files))

    def _arrive(self, request: DeliverRequest) -> None:
        match self.runs.arrive(request, request):
            case Started(active):
                self._begin(active, intake.deliver(request, self.world), request)
            case Joined(active, nudge):
                for task in self.tasks:
                    if nudge and task.active is active:
                        task.wake = self.world.real
            case Answered(answer):
                self._told(request, answer, readable=True)
            case Other():
                own: Active[DeliverRequest] = Active(request.id, request.fingerprint)
                own.callers.append(request)
                self._clash(own, request)

    def _clash(self, own: Active[DeliverRequest], request: DeliverRequest) -> None:
        run = runs.clash(request, self.world)
        consult = next(run)
        assert isinstance(consult, Consult)
        found = self.store.consult(consult.id, consult.binding)
        tell = run.send(found)
        assert isinstance(tell, Tell)
        self._told(request, tell.answer, readable=not isinstance(found, Unreadable))

    def _do_kill(self) -> None:
        self.kill()

    def _do_stop(self) -> None:
        """SIGTERM: running parts get a moment, then the process ends."""
        self.world.stopping = True
        self._work(20)
        self.kill()

    def _do_moment(self) -> None:
        self._pass(self.rng.choice((1.0, 5.0, 30.0, 61.0)))

    def _do_while(self) -> None:
        self._pass(self.rng.choice((900.0, 3600.0, 5 * 3600.0)))

    def _do_long(self) -> None:
        self._pass(self.rng.choice((12.0, 23.5, 30.0, 30 * 24.0 + 1)) * 3600)

    def _do_mood(self) -> None:
        self.broker.mood = self.rng.choice(("healthy", "flaky", "flaky", "down", "keyless"))

    def _do_probe(self) -> None:
        self.world.keyed = self.broker.mood in ("healthy", "flaky")
        if self.store.disk.there:
            self._heal()

    def _do_room(self) -> None:
        room = self.rng.choice(ROOMS)
        self.broker.closed_rooms ^= {room}

    def _do_people(self) -> None:
        """The owner changes the settings, which takes a restart."""
        self.world.listed = frozenset(p for p in PEOPLE if self.rng.random() < 0.6)
        self.world.unchecked = self.rng.random() < 0.5
        self.kill()

    def _do_demote(self) -> None:
        room, sender = self.rng.choice(ROOMS), self.rng.choice(PEOPLE)
        if self.store.usable():
            for binding in list(self.disk.bindings.values()):
                if (binding.room, binding.sender) == (room, sender):
                    self.store.drop(binding, self.world.wall_now())

    def _do_clock(self) -> None:
        step_s = self.rng.choice((-5 * 3600.0, -60.0, 3600.0, 25 * 3600.0))
        self.checks.stepped_back = self.checks.stepped_back or step_s < 0
        self.checks.stepped_on = self.checks.stepped_on or step_s > 0
        self.world.step_s += step_s

    def _do_damage(self) -> None:
        self.disk.sound = not self.disk.sound
        self._heal()

    def _do_loss(self) -> None:
        """Deleted while it is in use; it comes back, or the owner restarts without it."""
        if self.rng.random() < 0.7 or not self.disk.there:
            return
        self.disk.there = False
        self._work(8)
        if self.rng.random() < 0.6:
            self.disk.there = True
            return
        self.checks.lost()
        self.disk.entries, self.disk.bindings = {}, {}
        self.disk.sound = True
        self.kill()

    def _do_file(self) -> None:
        if self.world.files:
            uri = self.rng.choice(sorted(self.world.files))
            if self.rng.random() < 0.5:
                self.world.files.pop(uri)
            else:
                self.world.files[uri] = self.rng.choice(("another report", SECRET))

    def _pass(self, seconds: float) -> None:
        """Let time pass, from wake to wake."""
        if seconds > 60.0:
            self._work(400)  # nobody is between two effects for that long
        until = self.world.real + seconds
        for _ in range(200):
            wakes = [t.wake for t in self.tasks if t.wake is not None]
            coming = min((w for w in wakes if w > self.world.real), default=until)
            self.world.real = min(coming, until)
            self._work(400)
            if self.world.real >= until:
                return
        self.world.real = until

    def _settle(self) -> None:
        """Everything works from here on, and nobody asks for anything any more."""
        self.trace.append("settle")
        self.disk.there = self.disk.there or bool(self.disk.entries)
        self.disk.sound = True
        self.broker.mood, self.world.keyed = "healthy", True
        self.kill()
        for _ in range(60):
            self._pass(1800.0)
        self.checks.at_the_end()


_ACTIONS = {
    "turn": 8,
    "send": 14,
    "resend": 20,
    "resend_changed": 4,
    "kill": 7,
    "stop": 2,
    "moment": 10,
    "while": 8,
    "long": 4,
    "mood": 6,
    "probe": 6,
    "room": 2,
    "people": 3,
    "demote": 2,
    "clock": 2,
    "damage": 4,
    "loss": 2,
    "file": 4,
}


def _request(
    delivery_id: str, binding: str, text: str | None, files: list[dict[str, str]]
) -> DeliverRequest:
    plain = {"id": delivery_id, "binding": binding, "text": text, "files": files}
    request = read_deliver(json.dumps(plain).encode())
    assert not isinstance(request, Invalid), request
    return request


def run_history(seed: object, steps: int = STEPS) -> None:
    """One history. Raises: Violation, with the seed and the last things that happened."""
    sim = Sim(seed)
    try:
        sim.run(steps)
    except Violation as violation:
        last = "\n  ".join(sim.trace[-40:])
        raise Violation(f"{violation} (seed {seed})\n  {last}") from None
