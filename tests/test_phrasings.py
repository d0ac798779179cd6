"""Checks of the HR phrasings (data/scenarios/hr.yaml) and the hand-written questions."""

import difflib
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
HR = yaml.safe_load((ROOT / "data/scenarios/hr.yaml").read_text(encoding="utf-8"))
EXAMPLES = ROOT / "data/examples/questions.source.yaml"
ASKS = HR["asks"]
LANGS = ("zh", "en")

SLOTS = {
    "leave_and_email": {"name", "period"},
    "manager_email": {"name"},
    "leave_today": {"name"},
    "employee_id": {"name"},
    "leave_by_id": {"emp_id", "period"},
    "manager_by_id": {"emp_id"},
    "leave_period": {"name", "period"},
    "manager_name": {"name"},
}
WORDS = {
    "leave": {"zh": ["假"], "en": ["leave", "off", "away"]},
    "manager": {
        "zh": ["主管", "上级", "领导", "汇报"],
        "en": ["manager", "boss", "supervisor", "report", "reports"],
    },
    "email": {"zh": ["邮箱"], "en": ["email"]},
    "id": {
        "zh": ["工号", "员工号", "员工编号"],
        "en": ["employee id", "employee number"],
    },
    "days": {"zh": ["几天", "多少天", "天数"], "en": ["days"]},
    "today": {"zh": ["今天", "今日"], "en": ["today"]},
}
# ask: (word classes it must have, word classes it must not have)
RULES = {
    "leave_and_email": (["leave", "email", "manager"], ["days", "today"]),
    "manager_email": (["manager", "email"], ["leave", "id"]),
    "leave_today": (["leave", "today"], ["manager", "email", "days", "id"]),
    "employee_id": (["id"], ["leave", "manager", "email"]),
    "leave_by_id": (["leave"], ["manager", "email", "days", "today"]),
    "manager_by_id": (["manager"], ["leave", "email"]),
    "leave_period": (["leave", "days"], ["manager", "email", "id", "today"]),
    "manager_name": (["manager"], ["leave", "email", "id"]),
}
CASES = [(ask, lang) for ask in SLOTS for lang in LANGS]
ALL = CASES + [("chat", lang) for lang in LANGS]


def texts(ask, lang):
    items = ASKS[ask][lang]
    return [i["q"] for i in items] if ask == "chat" else items


def train(ask, lang):
    return [t for n, t in enumerate(texts(ask, lang), 1) if n % 4]


def held_out(ask, lang):
    return [t for n, t in enumerate(texts(ask, lang), 1) if n % 4 == 0]


def slots(text):
    return set(re.findall(r"\{(\w+)\}", text))


def units(text, lang):
    text = re.sub(r"\{\w+\}", " ", text).lower()
    return set(re.findall(r"\w", text) if lang == "zh" else re.findall(r"[a-z]+", text))


def found(text, cls, lang):
    text = re.sub(r"\{\w+\}", " ", text).lower()
    if lang == "zh":
        return {w for w in WORDS[cls][lang] if w in text}
    return {w for w in WORDS[cls][lang] if re.search(rf"\b{w}\b", text)}


def test_asks_and_blocks():
    assert set(ASKS) == set(SLOTS) | {"chat"}
    assert set(HR["periods"]) == {"today", "this_week", "last_week"}
    for block in ("prefixes", "suffixes"):
        for lang in LANGS:
            items = HR[block][lang]
            assert len(items) >= 8 and "" in items and len(set(items)) == len(items)


@pytest.mark.parametrize("ask,lang", ALL)
def test_counts(ask, lang):
    assert len(texts(ask, lang)) >= (72 if ask == "chat" else 16)
    assert len(train(ask, lang)) >= 12


@pytest.mark.parametrize("lang", LANGS)
def test_no_duplicates_across_asks(lang):
    counts = Counter(
        re.sub(r"[\W_]", "", t.replace("{", "S").replace("}", "S")).lower() for a in ASKS for t in texts(a, lang)
    )
    assert [t for t, n in counts.items() if n > 1] == []


@pytest.mark.parametrize("ask,lang", CASES)
def test_slots(ask, lang):
    for t in texts(ask, lang):
        names = re.findall(r"\{(\w+)\}", t)
        assert sorted(names) == sorted(SLOTS[ask]), t
        assert t == t.strip()
        if lang == "en":
            assert t[-1] in ".?!", t
            assert not t.startswith("{period}"), t
        else:
            assert t[-1] not in "。？！，", t


@pytest.mark.parametrize("ask,lang", CASES)
def test_keywords(ask, lang):
    need, ban = RULES[ask]
    for t in texts(ask, lang):
        for cls in need:
            assert found(t, cls, lang), (cls, t)
        for cls in ban:
            assert not found(t, cls, lang), (cls, t)
    for cls in need:
        seen = set().union(*(found(t, cls, lang) for t in train(ask, lang)))
        for t in held_out(ask, lang):
            assert found(t, cls, lang) <= seen, (cls, t)


@pytest.mark.parametrize("ask,lang", ALL)
def test_held_out_uses_known_words(ask, lang):
    known = set().union(*(units(t, lang) for a in ASKS for t in train(a, lang)))
    for t in held_out(ask, lang):
        assert units(t, lang) <= known, (t, units(t, lang) - known)


@pytest.mark.parametrize("ask,lang", ALL)
def test_held_out_is_new(ask, lang):
    # Slots count as one character, so that their names do not decide the ratio;
    # the raw text is held to the same limit.
    def short(t):
        return re.sub(r"\{(\w)\w*\}", lambda m: m.group(1).upper(), t)

    for t in held_out(ask, lang):
        for s in train(ask, lang):
            for a, b in ((t, s), (short(t), short(s))):
                # ratio() depends on the order of its arguments
                r = max(
                    difflib.SequenceMatcher(None, a, b, autojunk=False).ratio(),
                    difflib.SequenceMatcher(None, b, a, autojunk=False).ratio(),
                )
                assert r <= 0.85, (round(r, 3), a, b)


@pytest.mark.parametrize("lang", LANGS)
def test_chat(lang):
    policy = set()
    answers = {"train": set(), "held": set()}
    sums = 0
    for n, item in enumerate(ASKS["chat"][lang], 1):
        q, a = item["q"], item["a"]
        is_sum = item["topic"] == "sum"
        sums += is_sum
        assert slots(q) == ({"a", "b"} if is_sum else set())
        assert slots(a) == ({"sum"} if is_sum else set())
        assert "@" not in a and not re.search(r"\d", a)
        if item["topic"] == "policy":
            policy.add(a)
        answers["train" if n % 4 else "held"].add(a)
    assert sums >= 4
    assert len(policy) == 1
    assert answers["held"] <= answers["train"]


KINDS = {1, 2, 3, 4, 5, 6, 10, 13, 19, 20, 26}


def test_hand_written_questions():
    rows = yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))["questions"]
    assert len(rows) >= 44
    assert {r["kind"] for r in rows} == KINDS
    count = Counter(r["language"] for r in rows)
    assert count["zh"] >= 28 and count["en"] >= 16
    assert len({r["text"] for r in rows}) == len(rows)
    phrasings = {lang: [t for a in ASKS for t in texts(a, lang)] for lang in LANGS}
    for r in rows:
        assert set(r) == {"text", "kind", "language", "person", "period"}, r
        want = set() if r["kind"] == 26 else {"emp_id"} if r["kind"] in (5, 6) else {"name"}
        assert slots(r["text"]) == want, r
        assert r["person"] == (f"{{{want.pop()}}}" if want else None), r
        assert r["period"] in (None, "today", "this_week", "last_week")
        if r["kind"] in (1, 3, 5, 13, 19):
            assert r["period"], r
        if r["kind"] in (2, 4, 6, 20, 26):
            assert r["period"] is None, r
        if r["period"]:
            said = HR["periods"][r["period"]][r["language"]]
            assert any(p in r["text"].lower() for p in said), r
        for t in phrasings[r["language"]]:
            assert difflib.SequenceMatcher(None, r["text"], t).ratio() <= 0.85, (
                r["text"],
                t,
            )
