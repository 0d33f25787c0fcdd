"""Is the evidence found? Recall of turns and passages, beside baselines and a written recipe.

    python benchmarks/recall_quality.py [--data DIR] [--cache DIR] [--sets LoCoMo,BEAM] [--rows ...]
        [--categories] [--ablation] [--full] [--triples] [--no-house | --kept-vectors]

Public questions with gold evidence: LoCoMo (turns of long chats, half of them about things never
said by the one asked about: "adversarial"), BEAM (long messages of user and assistant), MuSiQue
(passages, several hops; in shuffled order). Every row is run with the same settings on all of them.
Given are recall@5 / recall@10 / nDCG@10 in %, means over questions, with 95 % intervals from
resampled questions. Units with equal scores are ranked by their place.

The baselines and the recipe are plain numpy over whole stores; "recall-echo" is built anew through
its public API, one memory a store. All use the same int8 MiniLM, whose vectors are kept in the
cache folder for the first two: the published numbers were taken with fp32 and differ by up to a
point.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recall_quality_parts import baselines, fuller, house
from recall_quality_parts.embeddings import Embeddings
from recall_quality_parts.measures import DEPTH, Measured, measured, scores
from recall_quality_parts.recipe import WRITTEN, Recipe, Store
from recall_quality_parts.sets import FILES, TRIPLES, Corpus, corpora, triples_of
from rich.console import Console
from rich.table import Column, Table

CHOSEN = Recipe()
ABLATION = {
    "- vector of the turn before": replace(CHOSEN, before=0.0),
    "whole vector of the turn before": replace(CHOSEN, before=1.0),
    "names shared, whatever their sentence": replace(CHOSEN, told=0.0),
    "names shared, sentence twice as much": replace(CHOSEN, told=4.0),
    "names shared, better of two seeds": replace(CHOSEN, summed=False),
    "names shared .3": replace(CHOSEN, spread=0.3),
    "names shared .5": replace(CHOSEN, spread=0.5),
    "measured voices for roles": replace(CHOSEN, roles=False),
    "- voice": replace(CHOSEN, voice=0.0),
    "- named speaker": replace(CHOSEN, named=0.0),
    "- question and answer": replace(CHOSEN, answer=0.0),
    "- neighbours": replace(CHOSEN, neighbour=0.0),
    "- session": replace(CHOSEN, session=0.0),
    "- names shared": replace(CHOSEN, spread=0.0),
    "names shared, ungated": replace(CHOSEN, same=1e9),
    "with a list of asking words": replace(CHOSEN, asking=True),
    "- floor under lengths": replace(CHOSEN, floor=0.0),
    "- dates in the text": replace(CHOSEN, dates=False),
    "words .3, flat": replace(CHOSEN, lexical_short=0.0),
    "words .45, flat": replace(CHOSEN, lexical=0.45, lexical_short=0.0),
    "- words": replace(CHOSEN, lexical=0.0, lexical_short=0.0),
    "pools of 100": replace(CHOSEN, pool=100),
    "pools of 50": replace(CHOSEN, pool=50),
    "whole store": replace(CHOSEN, pool=10**9),
}

SHOWN = ("dense", "  + dates in the text", "recipe as chosen, one vector", "recall-echo")

console = Console(width=130, highlight=False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store with its vectors, and those of its questions."""

    corpus: Corpus
    vectors: Any
    asked: Any


Asked = Callable[[str, Any], list[str]]
Opened = Callable[[Prepared], Iterator[Asked]]


def group(corpus: Corpus, category: str) -> str:
    if corpus.set == "LoCoMo":
        return "LoCoMo adversarial" if category == "adversarial" else "LoCoMo 1-4"
    return corpus.set


def ranking(corpus: Corpus, ranker: baselines.Ranker) -> Asked:
    def asked(text: str, vector: Any) -> list[str]:
        return [corpus.units[place].id for place in baselines.best(ranker(text, vector), DEPTH)]

    return asked


def baseline(name: str) -> Opened:
    def opened(store: Prepared) -> Iterator[Asked]:
        yield ranking(store.corpus, baselines.rankers(store.corpus, store.vectors)[name])

    return opened


def by_recipe(recipe: Recipe) -> Opened:
    def opened(store: Prepared) -> Iterator[Asked]:
        yield ranking(store.corpus, Store(store.corpus, store.vectors, recipe).ask)

    return opened


def by_full_recipe(recipe: Recipe, embeddings: Embeddings) -> Opened:
    def opened(store: Prepared) -> Iterator[Asked]:
        pieces, owners = fuller.chunks(store.corpus)
        more = {
            "context": embeddings.of(fuller.in_context(store.corpus), "units in context"),
            "chunks": embeddings.of(pieces, "pieces"),
            "owners": owners,
        }
        yield ranking(store.corpus, Store(store.corpus, store.vectors, recipe, **more).ask)

    return opened


def by_house(kept: Embeddings | None, *, triples: bool = False) -> Opened:
    def opened(store: Prepared) -> Iterator[Asked]:
        with house.built(store.corpus, kept, triples=triples) as (memory, units, seconds):
            count = len(store.corpus.units)
            console.print(f"recall-echo: {store.corpus.name}, {count} units in {seconds:.1f} s")
            yield lambda text, vector: house.ranked(memory, units, text)
        if kept is not None:
            kept.write()

    return opened


def asked_all(opened: Opened, stores: list[Prepared]) -> dict[str, Measured]:
    """Return what one row measures, by group and by category."""
    each: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for store in stores:
        for ask in opened(store):
            for question, vector in zip(store.corpus.questions, store.asked, strict=True):
                one = scores(ask(question.text, vector), question.gold)
                each[group(store.corpus, question.category)].append(one)
                each[f"{store.corpus.set}: {question.category}"].append(one)
    return {name: measured(found) for name, found in each.items()}


def rows(options: argparse.Namespace, embeddings: Embeddings) -> dict[str, Opened]:
    found = {name: baseline(name) for name in baselines.NAMES}
    found["recipe as written, one vector"] = by_recipe(Recipe(**WRITTEN))
    found["recipe as chosen, one vector"] = by_recipe(CHOSEN)
    if options.triples:
        found["  + ready triples"] = by_recipe(replace(CHOSEN, triples=True))
    if options.full:
        found["  + context and chunk vectors"] = by_full_recipe(CHOSEN, embeddings)
    if options.ablation:
        found |= {f"  {name}": by_recipe(recipe) for name, recipe in ABLATION.items()}
    if not options.no_house:
        kept = embeddings if options.kept_vectors else None
        found["recall-echo"] = by_house(kept)
        if options.triples:
            found["recall-echo, ready triples as relations"] = by_house(kept, triples=True)
    return found


def table(title: str, found: dict[str, dict[str, Measured]], names: list[str]) -> Table:
    counts = {name: next(iter(found.values()))[name].count for name in names}
    columns = [f"{name} (n {counts[name]})" for name in names]
    made = Table(
        Column("", no_wrap=True),
        *columns,
        title=f"{title}, recall@5 / recall@10 / nDCG@10",
        title_justify="left",
    )
    for row, by_name in found.items():
        made.add_row(row, *(str(by_name[name]) for name in names))
    return made


def categories(found: dict[str, dict[str, Measured]], names: list[str]) -> Table:
    made = Table("recall@5 / recall@10 / nDCG@10", "n", *(row.strip() for row in found))
    for name in sorted(names):
        each = [by_name[name] for by_name in found.values()]
        made.add_row(name, str(each[0].count), *map(str, each))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the data sets")
    cache = Path(tempfile.gettempdir()) / "recall-echo-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache, help="folder that keeps vectors")
    parser.add_argument("--sets", default=",".join(FILES), help="which sets, by comma")
    parser.add_argument("--rows", help="only rows whose name holds one of these, by comma")
    parser.add_argument("--categories", action="store_true", help="a table by category, too")
    parser.add_argument("--intervals", action="store_true", help="95 %% intervals of every row")
    parser.add_argument("--ablation", action="store_true", help="the recipe without each part")
    parser.add_argument("--full", action="store_true", help="the recipe with more vectors (slow)")
    parser.add_argument("--triples", action="store_true", help="MuSiQue's ready triples, too")
    parser.add_argument(
        "--kept-vectors", action="store_true", help="recall-echo, too, takes vectors from the cache"
    )
    parser.add_argument("--no-house", action="store_true", help="leave recall-echo itself out")
    options = parser.parse_args()
    wanted = [name for name in options.sets.split(",") if (options.data / FILES[name]).is_file()]
    for name in options.sets.split(","):
        if name not in wanted:
            console.print(f"skipped: {options.data / FILES[name]} is missing; see README.md here")
    if not wanted:
        sys.exit("skipped: nothing to measure; benchmarks/README.md says where to get the data")
    embeddings = Embeddings(options.cache)
    stores = []
    for name in wanted:
        for corpus in corpora(options.data, name):
            if name == "MuSiQue" and options.triples and (options.data / TRIPLES).is_file():
                corpus = replace(corpus, triples=triples_of(options.data))
            texts, questions = [u.said for u in corpus.units], [q.text for q in corpus.questions]
            stores.append(
                Prepared(
                    corpus,
                    embeddings.of(texts, f"units of {corpus.name}"),
                    embeddings.of(questions, f"questions of {corpus.name}"),
                )
            )
    found: dict[str, dict[str, Measured]] = {}
    for row, opened in rows(options, embeddings).items():
        if options.rows and not any(part in row for part in options.rows.split(",")):
            continue
        started = time.perf_counter()
        found[row] = asked_all(opened, stores)
        console.print(f"{row.strip()}: {time.perf_counter() - started:.1f} s", style="dim")
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    whole = [name for name in names if ":" not in name]
    console.print(table("evidence found", found, whole))
    if options.categories:
        shown = {row: by for row, by in found.items() if row in SHOWN}
        console.print(categories(shown, [name for name in names if ":" in name]))
    for row, by_name in found.items():
        if options.intervals or row in ("recipe as chosen, one vector", "recall-echo"):
            for name in whole:
                console.print(f"{row.strip()}, {name}: {by_name[name].intervals}")


if __name__ == "__main__":
    main()
