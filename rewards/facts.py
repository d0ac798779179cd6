"""Reading by value: what an answer says, in Chinese or English, and what results show.

Patterns, not a parser: they recognise e-mails, day counts, ids, dates, names and a closed set of ways to say "no
leave", "on leave", "no manager" and "not found". Other wordings are not understood, and then a fact counts as not
said. Questions and "whether ..." clauses claim nothing. Every pattern is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from env.provenance import ID_KEY, canonical_id, nodes
from env.types import Step

_EMAIL = re.compile(r"(?<![a-z0-9._%+\-])[a-z0-9._%+\-]++@[a-z0-9\-]++(?:\.[a-z0-9\-]++)+")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = re.compile(
    r"(?<!\d)(?:"
    r"\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?(?!\d)"
    r"|(?:\d{4}\s?年\s?)?\d{1,2}\s?月(?:\s?\d{1,2}\s?[日号])?"
    r"|\d{4}\s?年"
    r"|(?:0?[1-9]|1[0-2])/\d{1,2}(?![\d/])|(?:0[1-9]|1[0-2])-\d{2}(?!\d)"
    rf"|(?:\d{{1,2}}\s?-\s?)?\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s\d{{4}}(?!\d))?"
    r")"
    rf"|\b{_MONTH}\s(?:\d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:\s?-\s?\d{{1,2}}(?!\d))?(?:,?\s\d{{4}}(?!\d))?|\d{{4}}(?!\d))"
)
_ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_ID = re.compile(r"(?<![\d.])\d{4,6}(?!\d|\.\d)")

_ZH_DIGITS = {"零": 0, "两": 2} | {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)}
_EN_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = rf"(?:\d{{1,3}}(?:\.\d{{1,3}})?|[零一二两三四五六七八九十]{{1,3}}|{'|'.join(_EN_WORDS)})"
_OR = r"\s?(?:-|~|,|、|或者?|到|至|or|to|and)\s?"
_AND_A_HALF = r"\sand\sa\shalf"
_UNIT = (
    r"(?:(?:full|working|business|calendar|sick|annual|personal|leave)\s){0,2}"
    rf"(?:天(?!气)|工作日|days?\b)(?P<half_after>半|{_AND_A_HALF})?"
)
_DAYS = re.compile(
    rf"(?<![0-9a-z.第哪某每同这那零一二两三四五六七八九十])(?P<numbers>{_NUMBER}(?:{_OR}{_NUMBER}){{0,5}})"
    rf"(?P<half_before>{_AND_A_HALF})?[\s\-]?个?(?:(?P<halves>半天|半日)|(?P<half_between>半(?=工作日))?{_UNIT})"
)
_PART_DAY = re.compile(
    rf"(?P<one_and_half>\ba\sday{_AND_A_HALF})|(?P<one>\ba\s(?:full|whole|single)\sday\b|\ba\sday\s(?:off|of\sleave)\b)"
    r"|半天|半日|半个?工作日|\bhalf[\s\-](?:a[\s\-])?day\b"
)
_ONE_NUMBER = re.compile(_NUMBER)

# 1,234.5 and -3 %, but neither the 2 of A2 nor the 3 of 1-3: a sign stands at the start of a word.
_DIGITS = re.compile(
    r"(?<![0-9a-z_.])(?:(?<![0-9a-z)\]%-])-)?(?:\d{1,3}(?:,\d{3})++|\d{1,15})(?:\.\d{1,9})?(?![0-9a-z_]|\.\d)"
)
_DECIMAL = re.compile(r"\d+\.\d+")

_CLAUSE = r"[^,。.;!?\n]"
_SENTENCE = re.compile(r"[^。.;!?\n]+[。.;!?\n]?")
_NEUTRAL = re.compile(rf"(?:有没有|是不是|请没请|是否|有无|\bwhether\b|\bif\b){_CLAUSE}*+")
_DENIED = re.compile(r"(?:不是|并非|而非|\bnot|n't)\s?(?:be\s)?$")
_NO_DATA = r"(?!information|info\b|data|details|access|permission|way\b)"

_ZH_LEAVE = r"(?:请假|休假|[年病事婚产]假|假期|假)(?!信息|情况|数据|系统|制度|查询)"
_EN_LEAVE = r"(?:leaves?|time\soff|days?\soff|absences?)\b(?!\s(?:information|info|data|details|system|policy))"
_ANY_WORDS = r"(?:[a-z]+\s){0,2}"
_NOT_ONE_DAY = re.compile(r"[一半]天(?:的?假)?[都也](?:没|未)")
_NO_LEAVE = re.compile(
    rf"{_NOT_ONE_DAY.pattern}"
    r"|(?:没有|没|未|无|不)(?:在|处于|正在|查到|找到|查询到|发现|任何|曾|过|相关|其|有|的|申请|提交|请过?|休过?)*+"
    rf"{_ZH_LEAVE}"
    rf"|(?:没有|没|未)(?:查到|找到|查询到|检索到|发现){_CLAUSE}{{0,14}}?(?:请假|休假)的?记录"
    r"|请假(?:记录|天数|时长)?(?:合计|总计)?[为是:]?\s?(?:[零空无]|0(?!\d))"
    rf"|\b(?:no|zero)\s{_NO_DATA}{_ANY_WORDS}{_EN_LEAVE}"
    r"|(?:\bnot|n't|\bnever)\s(?!find\sout|able\b|know|determine|check|query|access|retriev|get\b|obtain|look|see\b)"
    rf"(?:[a-z]+\s){{0,4}}{_EN_LEAVE}"
)
_ON_LEAVE = re.compile(
    rf"请了{_CLAUSE}{{0,8}}假|请假了|(?:已经?|有|正?在|处于|确实)(?:请|休)[年病事婚产]?假(?!制度|信息|情况|数据|系统)"
    rf"|休(?:了{_CLAUSE}{{0,6}})?[年病事婚产]假|休假中|请假中|在假期?中|有\s?\d{{1,3}}\s?条{_CLAUSE}{{0,6}}(?:请假|休假)"
    rf"|(?:\b(?:is|was|are|been|be)|'s)\s{_ANY_WORDS}on\s{_ANY_WORDS}leave\b"
    rf"|\b(?:took|takes|taken|taking)\s{_ANY_WORDS}(?:leave|time\soff)\b"
    r"|\b(?:has|had)\s(?:(?:a|an|some|approved|booked|taken|annual|sick|personal)\s){0,3}(?:leave|time\soff)\b(?!\sinfo)"
)
_BARE_LEAVE = re.compile(r"(?:请假|休假)\s?$")  # "张三今天请假", said of nobody who asks for it
_ASKING = re.compile(r"无法|不能|可以|帮|替|想|要|如何|怎么|申请|办理|提交|查|问|能|关于")
_MANAGER = r"(?:主管|上级|经理|领导|汇报对象)"
_EN_MANAGER = r"(?:manager|supervisor|boss|superior)"
_NO_MANAGER = re.compile(
    rf"(?:没有|无|未设置?|没设|没)(?:任何|直属|直接|上一级|的|更高|设置?|配置)*+{_MANAGER}(?!信息|数据|资料)"
    rf"|{_MANAGER}(?:字段|一栏)?[为是:]?\s?(?:无(?!法)|空|none\b|null\b)"
    rf"|\b{_EN_MANAGER}\b{_CLAUSE}{{0,20}}?(?:\bis\b|:)\s?(?:null|none|empty|blank|vacant)\b"
    r"|(?:不|无需|不需要|不用|无须)向(?:任何人|谁|其他人|别人|他人)汇报"
    rf"|\b(?:no|without\sa(?:ny)?)\s{_NO_DATA}{_ANY_WORDS}{_EN_MANAGER}s?\b(?!'?s?\s(?:info|data|details))"
    rf"|(?:\bnot|n't)\shave\s(?:an?|any)\s{_ANY_WORDS}{_EN_MANAGER}"
    r"|\breports?\sto\s(?:no[\s\-]one|nobody)\b|(?:\bnot|n't)\sreport\sto\sany(?:one|body)\b"
)
_NOT_FOUND = re.compile(
    r"查无|(?:没有|没能|没|未能|未|无法)(?:找到|查到|查询到|搜索到|搜到|检索到|发现)|[找查搜]不到|不存在"
    rf"|(?:没有|无)(?:这|此|该|名为|名叫|叫|符合|匹配){_CLAUSE}{{0,12}}"
    r"|\bno\s(?:such\s)?(?:employee|person|colleague|results?|match(?:es)?|one\s(?:named|called|by)|record\sof)\b|\bnobody\s(?:named|called|by)\b"
    r"|\bnot\s(?:be\s)?found\b(?!\sout)|\bno\ssuch\b|(?:\bnot|n't)\sexist\b|\bunable\sto\s(?:find|locate)\b(?!\sout)"
    r"|(?:could\snot|couldn't|cannot|can't|can\snot|did\snot|didn't)\s(?:find|locate)\b(?!\sout)"
)
_GIVE_UP = re.compile(
    r"无法|未能|没能|没有[找查]到|未[找查]到|[找查]不到|不知道|不清楚|未知|不确定|抱歉|对不起|\bsorry\b|\bunable\b|\bunknown\b"
    r"|\b(?:could|can|do|did|was|is)\s?(?:not|n't)\b|\bcannot\b|\bnot\s(?:found|available|known)\b"
    r"|\bno\s(?:[a-z]+\s)?information\b"
)
_WHICH = re.compile(
    r"哪一?[位个名]|哪里的|是指|指的是|请(?:问|确认|选择|说明|告诉)"
    r"|\bwhich\b|\bdo you mean\b|\bplease (?:confirm|specify|choose|tell)\b"
)
_REFUSAL = re.compile(
    r"无法|不能|没法|没有权限|无权|不支持|不提供|办不到|做不到|帮不了|只能(?:查|看|回答)|不在我的"
    r"|\b(?:cannot|can't|can not|unable|not able|not allowed|not permitted|do not have|don't have)\b"
    r"|\bonly (?:look|answer|help)\b"
)
_MANAGER_CLAIM = re.compile(
    rf"{_MANAGER}{_CLAUSE}{{0,8}}?(?:是|为|叫|:)\s?(?!谁|什么|哪|无|空|未)\w"
    rf"|\b{_EN_MANAGER}\b{_CLAUSE}{{0,30}}?(?:\bis\b|:)\s?(?!(?:not|no|unknown|unavailable|who|they|he|she|you)\b)\w"
    r"|\breports?\sto\s(?!no\b|nobody\b|who\b|any)\w"
    rf"|是{_CLAUSE}{{0,12}}(?:的(?:主管|上级|领导)|(?:直属|直接){_MANAGER})(?!信息|情况|邮箱|资料)"
    rf"|\bis\s(?:(?:his|her|their|your|the)\s|(?:[a-z]+\s)?[a-z]+'s\s)(?:direct\s|line\s|immediate\s)?{_EN_MANAGER}\b"
)
_SIMPLIFIED = str.maketrans(
    "請沒無經領導屬匯報兩個號員該這為時長數記錄總計處於現發間產對嗎問題",
    "请没无经领导属汇报两个号员该这为时长数记录总计处于现发间产对吗问题",
)
_ZERO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


@dataclass(frozen=True, slots=True)
class Saying:
    """What a text says. `text` is its normal form: NFKC, lower case, single spaces; `days` keeps repetitions."""

    text: str
    emails: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()  # ISO dates
    days: tuple[float, ...] = ()
    no_leave: bool = False
    on_leave: bool = False
    no_manager: bool = False
    manager: bool = False  # somebody is called a manager
    not_found: bool = False
    asking: bool = False  # which of several is meant
    refusing: bool = False
    numbers: tuple[float, ...] = ()  # written in digits, outside dates and e-mails


@dataclass(frozen=True, slots=True)
class Evidence:
    """What successful results hold: typed values, and the digit runs and e-mails inside their texts."""

    emails: frozenset[str]
    ids: frozenset[str]  # under `emp_id`
    digits: frozenset[str]  # typed ids, and any run of 4 to 6 digits in a text
    days: frozenset[float]  # under `days` or `total_days`
    people: frozenset[tuple[str, str]]  # (emp_id or "", name), one entry per spelling
    tools: frozenset[str]  # that succeeded
    numbers: frozenset[float] = frozenset()  # under any key
    texts: tuple[str, ...] = ()  # in normal form


def read_text(text: object) -> Saying:
    """Read an answer or a query. What is no text says nothing."""
    return _read(text) if isinstance(text, str) else Saying("")


@lru_cache(maxsize=1024)  # the episodes of a group share their query, and often their answer
def _read(text: str) -> Saying:
    plain = normal(text)
    bare = _EMAIL.sub("@", plain).translate(_SIMPLIFIED)
    undated = _NOT_ONE_DAY.sub(" ", _DATE.sub(" ", bare))
    claims = _claims(bare)
    rest = _NO_MANAGER.sub(" ", _NO_LEAVE.sub(" ", claims))
    clauses = re.split(r"[,。.;!?\n]", rest)
    return Saying(
        text=plain,
        emails=frozenset(_values(_EMAIL, plain)),
        ids=frozenset(_values(_ID, _DAYS.sub(" ", undated))),
        dates=frozenset(_ISO_DATE.findall(bare)),
        days=_day_counts(undated),
        no_leave=_NO_LEAVE.search(claims) is not None,
        on_leave=any(_claims_leave(clause) for clause in clauses),
        no_manager=_NO_MANAGER.search(claims) is not None,
        manager=any(_claims_manager(clause) for clause in clauses),
        not_found=_NOT_FOUND.search(rest) is not None,
        asking=bool(re.search(r"[?？]", plain)) and _WHICH.search(bare) is not None,
        refusing=_REFUSAL.search(bare) is not None,
        numbers=tuple(_digits(bare)),
    )


def read_results(steps: Iterable[Step]) -> Evidence:
    """Collect what the successful results among `steps` show."""
    good = [step for step in steps if step.result.ok]
    values = [node for step in good for node in nodes(step.result.data)]
    texts = [normal(value) for _, value in values if isinstance(value, str)]
    ids = frozenset(text for key, value in values if key == ID_KEY and (text := canonical_id(value)) is not None)
    return Evidence(
        emails=frozenset(email for text in texts if "@" in text for email in _EMAIL.findall(text)),
        ids=ids,
        digits=ids.union(run for text in texts for run in re.findall(r"\d{4,6}", text)),
        days=frozenset(float(value) for key, value in values if key in ("days", "total_days") and _is_number(value)),
        people=frozenset(person for _, value in values if isinstance(value, Mapping) for person in _people(value)),
        tools=frozenset(step.name for step in good),
        numbers=frozenset(float(value) for _, value in values if _is_finite(value)),
        texts=tuple(texts),
    )


def normal(text: object) -> str:
    """NFKC (full-width digits and punctuation become ASCII), lower case, runs of spaces as one, no zero-width marks."""
    if not isinstance(text, str):
        return ""
    plain = _ZERO_WIDTH.sub("", unicodedata.normalize("NFKC", text)).lower().replace("\u2019", "'")
    return re.sub(r"[^\S\n]+", " ", plain).strip()


def mentioned(text: str, names: Iterable[str]) -> frozenset[str]:
    """The names that stand in `text` (normal form), outside e-mails; a longer name hides one that it contains."""
    rest = _EMAIL.sub(" ", text)
    found = set()
    for name in sorted(set(names), key=lambda item: (-len(item), item)):
        pattern = _name_pattern(name)
        if any(not _denied(match) for match in pattern.finditer(rest)):
            found.add(name)
        rest = pattern.sub("\n", rest)
    return frozenset(found)


@lru_cache(maxsize=4096)
def _name_pattern(name: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.split(r"[\s\-]+", normal(name)) if word]
    return re.compile(rf"(?<![a-z]){'[ -]?'.join(words)}(?![a-z])" if words else r"(?!)")


def _values(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    return (match[0] for match in pattern.finditer(text) if not _denied(match))


def _claims(bare: str) -> str:
    """What is left without questions and "whether ..." clauses; a decimal point must not end a sentence."""
    joined = re.sub(r"(?<=\d)\.(?=\d)", "", bare)
    sentences = _SENTENCE.findall(_NEUTRAL.sub(" ", joined))
    return "".join(item for item in sentences if not item.rstrip("。.;!\n ").endswith(("?", "吗", "呢")))


def _claims_leave(clause: str) -> bool:
    if _ON_LEAVE.search(clause):
        return True
    return _BARE_LEAVE.search(clause) is not None and not _ASKING.search(clause)


def _claims_manager(clause: str) -> bool:
    return not _GIVE_UP.search(clause) and _MANAGER_CLAIM.search(clause) is not None


def _day_counts(text: str) -> tuple[float, ...]:
    """Counts of days in text without dates: "1.5天", "一天半", "two days", "half a day", "1 or 2 days"."""
    whole = [count for match in _DAYS.finditer(text) if not _denied(match) for count in _counted(match)]
    parts = [match for match in _PART_DAY.finditer(_DAYS.sub(" ", text)) if not _denied(match)]
    return (*whole, *(1.5 if match["one_and_half"] else 1.0 if match["one"] else 0.5 for match in parts))


def _denied(match: re.Match[str]) -> bool:
    """Whether "not" or "不是" stands right before a value: what is denied is not said."""
    return _DENIED.search(match.string[max(0, match.start() - 8) : match.start()]) is not None


def _counted(match: re.Match[str]) -> list[float]:
    half = 0.5 if match["half_before"] or match["half_between"] or match["half_after"] else 0.0
    unit = 0.5 if match["halves"] else 1.0
    return [(_number(number) + half) * unit for number in _ONE_NUMBER.findall(match["numbers"])]


def _number(text: str) -> float:
    if text in _EN_WORDS:
        return float(_EN_WORDS.index(text))
    if text[0].isdigit():
        return float(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return float(_ZH_DIGITS[text[-1]])
    return 10.0 * _ZH_DIGITS.get(tens[-1:], 1) + _ZH_DIGITS.get(ones[:1], 0)


def _people(entry: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    owner = canonical_id(entry.get(ID_KEY)) or ""
    for key in ("name", "name_en"):
        name = entry.get(key)
        if isinstance(name, str) and name.strip():
            yield owner, name


def _digits(bare: str) -> Iterable[float]:
    """Numbers in digits. "1234.5" may be a month as well: what is nothing but digits and a point counts as a number."""
    undated = _DATE.sub(lambda match: match[0] if _DECIMAL.fullmatch(match[0]) else " ", bare)
    return (float(match[0].replace(",", "")) for match in _DIGITS.finditer(undated) if not _denied(match))


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
