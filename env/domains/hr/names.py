"""Characters from which the simulated company draws its people, with pinyin and traditional forms.

A closed pool on purpose: a policy that is trained from nothing needs every character of a held-out name to have
occurred in training, in other names. Real directories bring their own names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# simplified, traditional, pinyin
SURNAMES = [
    tuple(entry.split(","))
    for entry in (
        "张,張,zhang 王,王,wang 李,李,li 赵,趙,zhao 刘,劉,liu 陈,陳,chen 杨,楊,yang 黄,黃,huang 周,周,zhou 吴,吳,wu "
        "徐,徐,xu 孙,孫,sun 马,馬,ma 朱,朱,zhu 胡,胡,hu 郭,郭,guo 何,何,he 林,林,lin 高,高,gao 罗,羅,luo "
        "郑,鄭,zheng 梁,梁,liang 谢,謝,xie 宋,宋,song 唐,唐,tang 许,許,xu 邓,鄧,deng 韩,韓,han 冯,馮,feng 曹,曹,cao "
        "彭,彭,peng 曾,曾,zeng 肖,肖,xiao 田,田,tian 董,董,dong 潘,潘,pan 袁,袁,yuan 蔡,蔡,cai 余,余,yu 叶,葉,ye"
    ).split()
]
GIVEN = [
    tuple(entry.split(","))
    for entry in (
        "伟,偉,wei 芳,芳,fang 娜,娜,na 敏,敏,min 静,靜,jing 丽,麗,li 强,強,qiang 磊,磊,lei 军,軍,jun 洋,洋,yang "
        "勇,勇,yong 艳,艷,yan 杰,傑,jie 娟,娟,juan 涛,濤,tao 明,明,ming 超,超,chao 秀,秀,xiu 霞,霞,xia 平,平,ping "
        "刚,剛,gang 桂,桂,gui 英,英,ying 华,華,hua 玉,玉,yu 兰,蘭,lan 斌,斌,bin 鹏,鵬,peng 飞,飛,fei 红,紅,hong "
        "建,建,jian 文,文,wen 晨,晨,chen 波,波,bo 宁,寧,ning 琳,琳,lin 凯,凱,kai 雪,雪,xue 梅,梅,mei 龙,龍,long "
        "国,國,guo 春,春,chun 慧,慧,hui 倩,倩,qian 婷,婷,ting 浩,浩,hao 宇,宇,yu 欣,欣,xin 怡,怡,yi 佳,佳,jia "
        "思,思,si 雨,雨,yu 天,天,tian 子,子,zi 小,小,xiao 安,安,an 志,志,zhi 海,海,hai 俊,俊,jun 峰,峰,feng"
    ).split()
]


@dataclass(frozen=True, slots=True)
class Name:
    """One full name in the spellings that colleagues use."""

    simplified: str  # 张伟明
    traditional: str  # 張偉明
    surname: str  # zhang
    given: str  # weiming

    @property
    def pinyin(self) -> str:
        return f"{self.surname.capitalize()} {self.given.capitalize()}"

    @property
    def said(self) -> tuple[str, ...]:
        """What questions call somebody of this name."""
        return (self.simplified, self.traditional, self.pinyin)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every form that the directory resolves: simplified, traditional, pinyin in both orders."""
        reversed_order = f"{self.given.capitalize()} {self.surname.capitalize()}"
        return tuple(dict.fromkeys((self.simplified, self.traditional, self.pinyin, reversed_order)))


@dataclass(frozen=True, slots=True)
class ListedName:
    """A name as somebody's own directory lists it; no spelling is added.

    simplified: what Chinese questions say. pinyin: what English ones say, the same where there is one name only.
    """

    simplified: str
    pinyin: str
    others: tuple[str, ...] = ()

    @property
    def traditional(self) -> str:
        """What a Chinese question now and then says instead."""
        return self.others[0] if self.others else self.simplified

    @property
    def said(self) -> tuple[str, ...]:
        return self.spellings

    @property
    def spellings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.simplified, self.pinyin, *self.others)))


PersonName = Name | ListedName


def compose(surname: int, given: tuple[int, ...]) -> Name:
    """The name made of SURNAMES[surname] and one or two entries of GIVEN."""
    family, parts = SURNAMES[surname], [GIVEN[index] for index in given]
    return Name(
        simplified=family[0] + "".join([part[0] for part in parts]),
        traditional=family[1] + "".join([part[1] for part in parts]),
        surname=family[2],
        given="".join([part[2] for part in parts]),
    )


def pinyin_of(surname: int, given: tuple[int, ...]) -> str:
    """The pinyin without spaces of what `compose` would make: by it names are told apart and split."""
    return SURNAMES[surname][2] + "".join([GIVEN[index][2] for index in given])


def held_out(text: str) -> bool:
    """Whether a name or an id belongs to evaluation: a fifth of all, by hash, so that splits can never overlap."""
    return hashlib.sha256(text.encode()).digest()[0] % 5 == 0


def name_split(name: Name) -> str:
    """ "eval" or "train", decided on the pinyin without spaces: a Chinese and an English row agree about a person."""
    return "eval" if held_out(name.surname + name.given) else "train"
