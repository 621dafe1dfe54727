"""Compute and storage nodes around cities, the bandwidths between them, and jobs over shards: all drawn from a seed.

The source prints ranges: 1 to more than 10 Mbit/s, local tasks of 40 to 60 s, remote ones mostly of more than 100 s,
jobs of 256 to 512 MB in chunks of 16 MB, gaps of 50 or 100 s. What is drawn here stays in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from planner.batch import Shard, Task

MBIT_BYTES_PER_S = 125_000.0
CHUNK_BYTES = 16_000_000
LOCAL_BYTES_PER_S = 8 * MBIT_BYTES_PER_S
"""From this bandwidth on, a compute node is local to a storage node."""


@dataclass(frozen=True, slots=True)
class WorldSettings:
    compute_nodes: int = 40
    slots_each: int = 1
    """Of each compute node."""
    storage_nodes: int = 32
    cities: int = 8
    """Each has compute nodes; nodes are spread over them at random."""
    isolated_storage_nodes: int = 1
    """Near no compute node."""
    jobs: int = 12
    gap_s: float = 50.0
    """Mean of the time between two postings (Poisson)."""
    posted_at_once: int = 1
    near_mbit_per_s: tuple[float, float] = (9.0, 14.0)
    """Between nodes of one city, uniform."""
    far_mbit_per_s: tuple[float, float] = (1.0, 2.0)
    """Between cities, uniform."""
    compute_s: tuple[float, float] = (28.0, 40.0)
    """Of a chunk; the mean of each node, uniform."""
    compute_spread: float = 0.1
    """Of each task around its node's mean (sigma of a log-normal)."""
    weather_spread: float = 0.15
    """Of each link around its mean, drawn anew every `weather_s` (sigma of a log-normal)."""
    weather_s: float = 60.0
    job_chunks: tuple[int, int] = (16, 32)
    """256 to 512 MB."""


@dataclass(frozen=True, slots=True)
class PostedJob:
    at_s: float
    name: str
    tasks: tuple[Task, ...]


class World:
    """Everything that does not depend on what frameworks do. The same seed and round, the same world.

    Rounds of one seed have the same nodes, with the same mean speeds and bandwidths; jobs and weather are drawn anew.
    """

    def __init__(self, settings: WorldSettings, seed: int, number: int = 0) -> None:
        self.settings = settings
        self._seed = f"{seed} {number}"
        rng = Random(f"nodes {seed}")
        self.compute = tuple(f"c{number}" for number in range(settings.compute_nodes))
        self.storage = tuple(f"s{number}" for number in range(settings.storage_nodes))
        city = {node: rng.randrange(settings.cities) for node in self.compute}
        city |= {node: rng.randrange(settings.cities) for node in self.storage}
        city |= dict.fromkeys(self.storage[: settings.isolated_storage_nodes], -1)
        self._mean = {
            (source, target): MBIT_BYTES_PER_S * rng.uniform(*self._range(city[source] == city[target]))
            for source in self.storage
            for target in self.compute
        }
        self._weather: dict[int, dict[tuple[str, str], float]] = {}
        self._compute_s = {node: rng.uniform(*settings.compute_s) for node in self.compute}
        self.jobs = self._jobs(Random(f"jobs {self._seed}"), number)

    def bandwidth_at(self, source: str, target: str, instant_s: float) -> float:
        """Bytes per second from a storage to a compute node."""
        period = int(instant_s / self.settings.weather_s)
        known = self._weather.get(period)
        if known is None:
            known = self._weather[period] = self._drawn(Random(f"weather {self._seed} {period}"))
        return known[source, target]

    def _drawn(self, rng: Random) -> dict[tuple[str, str], float]:
        """All links at once: to seed a generator takes longer than to draw from it."""
        spread = self.settings.weather_spread
        return {link: mean * math.exp(rng.gauss(0.0, spread)) for link, mean in self._mean.items()}

    def is_near(self, source: str, target: str) -> bool:
        """Whether the link's mean makes the nodes local to each other."""
        return self._mean[source, target] >= LOCAL_BYTES_PER_S

    def compute_time_s(self, task: Task, node: str) -> float:
        """How long the task takes on the node once its input is there."""
        spread = Random(f"compute {self._seed} {task.name} {node}").gauss(0.0, self.settings.compute_spread)
        return self._compute_s[node] * math.exp(spread) * task.size_bytes / CHUNK_BYTES

    def arrival_s(self, task: Task, node: str, start_s: float) -> float:
        """When the last shard has come if all are sent then and share their links with nobody."""
        return max(self._sent_s(shard, node, start_s) for shard in task.shards)

    def reachable_locality(self) -> float:
        """Share of all tasks that have a local compute node at all: no schedule has more local tasks."""
        tasks = [task for job in self.jobs for task in job.tasks]
        return sum(any(self._all_near(task, node) for node in self.compute) for task in tasks) / len(tasks)

    def _all_near(self, task: Task, node: str) -> bool:
        return all(self.is_near(shard.site, node) for shard in task.shards)

    def _range(self, near: bool) -> tuple[float, float]:
        return self.settings.near_mbit_per_s if near else self.settings.far_mbit_per_s

    def _sent_s(self, shard: Shard, node: str, start_s: float) -> float:
        left_bytes, now_s = float(shard.size_bytes), start_s
        while True:
            ends_s = (int(now_s / self.settings.weather_s) + 1) * self.settings.weather_s
            rate = self.bandwidth_at(shard.site, node, now_s)
            if left_bytes <= rate * (ends_s - now_s):
                return now_s + left_bytes / rate
            left_bytes -= rate * (ends_s - now_s)
            now_s = ends_s

    def _jobs(self, rng: Random, number: int) -> tuple[PostedJob, ...]:
        jobs: list[PostedJob] = []
        now_s = 0.0
        while len(jobs) < self.settings.jobs:
            now_s += rng.expovariate(1 / self.settings.gap_s)
            for _ in range(min(self.settings.posted_at_once, self.settings.jobs - len(jobs))):
                jobs.append(self._job(rng, f"r{number}j{len(jobs)}", now_s))
        return tuple(jobs)

    def _job(self, rng: Random, name: str, at_s: float) -> PostedJob:
        chunks = rng.randint(*self.settings.job_chunks)
        shards = [Shard(rng.choice(self.storage), CHUNK_BYTES) for _ in range(chunks)]
        return PostedJob(
            at_s, name, tuple(Task(f"{name}.{n}", name, "wordcount", (shard,)) for n, shard in enumerate(shards))
        )
