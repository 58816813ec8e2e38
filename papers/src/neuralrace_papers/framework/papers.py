"""The five documents that experiments reproduce, and how they are cited."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A document that experiments reproduce.

    Parameters
    ----------
    short : str
        Authors and year, as a text cites it.
    authors, title, venue : str
    year : int or None
        None where the document bears no date.
    link : str
        Where it can be read; empty where no address is known.
    """

    short: str
    authors: str
    title: str
    venue: str
    year: int | None
    link: str = ""

    @property
    def reference(self) -> str:
        """Authors, title, venue and year; without the link.

        >>> REFERENCES["multipathway"].reference[:60]
        'Jianghong Shi, Eric Shea-Brown, Michael A. Buice. Learning d'
        """
        return f"{self.authors}. {self.title}. {self.venue}{f', {self.year}' if self.year else ''}."


REFERENCES = {
    "neural_race": Paper(
        "Saxe et al. 2022",
        "Andrew M. Saxe, Shagun Sodhani, Sam Lewallen",
        "The Neural Race Reduction: Dynamics of Abstraction in Gated Networks",
        "International Conference on Machine Learning (ICML), PMLR 162",
        2022,
        "https://arxiv.org/abs/2207.10430",
    ),
    "make_haste_slowly": Paper(
        "Jarvis et al. 2025",
        "Devon Jarvis, Richard Klein, Benjamin Rosman, Andrew M. Saxe",
        "Make Haste Slowly: A Theory of Emergent Structured Mixed Selectivity in Feature Learning ReLU "
        "Networks",
        "International Conference on Learning Representations (ICLR)",
        2025,
        "https://arxiv.org/abs/2503.06181",
    ),
    "multipathway": Paper(
        "Shi et al. 2022",
        "Jianghong Shi, Eric Shea-Brown, Michael A. Buice",
        "Learning dynamics of deep linear networks with multiple pathways",
        "Advances in Neural Information Processing Systems (NeurIPS)",
        2022,
        "https://openreview.net/forum?id=4B7azgAbzda",
    ),
    "talk": Paper(
        "Saxe, talk",
        "Andrew Saxe",
        "Models of representation learning dynamics",
        "Slides of a talk, Gatsby Unit and Sainsbury Wellcome Centre, UCL",
        None,
    ),
    "representations_align": Paper(
        "van Rossem and Saxe 2024",
        "Loek van Rossem, Andrew M. Saxe",
        "When Representations Align: Universality in Representation Learning Dynamics",
        "International Conference on Machine Learning (ICML)",
        2024,
        "https://arxiv.org/abs/2402.09142",
    ),
}
