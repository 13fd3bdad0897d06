"""Pages of a shop: where each click leads, and that impossible ones change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_envs.shop.product import Product
from plat_envs.shop.shopper import BUY, NEXT, PREVIOUS, SUB_PAGES, TO_SEARCH, Visit

PRODUCTS = {
    f"P{n}": Product(f"P{n}", f"Lamp {n}", n, "lamp", (), ("lamp",), {"color": ("red", "blue"), "base": ("red", "oak")})
    for n in range(1, 6)
}


class Five:
    """A shop whose every search finds five lamps, but for `none`."""

    window = 2

    def product(self, product_id):
        return PRODUCTS[product_id]

    def search(self, text):
        return () if text == "none" else tuple(PRODUCTS)


def visit(*clicks):
    """Search for lamps and click."""
    made = Visit(Five())
    made.search("lamps")
    for name in clicks:
        before = made.state
        made.click(name)
        assert made.state != before, name
    return made


def test_the_first_page_has_a_search_bar_only():
    made = Visit(Five())
    assert made.page == "search" and made.clickable() == [] and made.item is None


def test_results_have_pages():
    assert visit().clickable() == [TO_SEARCH, NEXT, "p1", "p2"]
    assert visit(NEXT, NEXT).clickable() == [TO_SEARCH, PREVIOUS, NEXT, "p5"]
    assert visit(NEXT, NEXT, NEXT).clickable() == [TO_SEARCH, PREVIOUS], "the released page goes on behind the end too"
    assert visit(NEXT, NEXT, NEXT, PREVIOUS).shown() == ("P5",)
    assert visit(NEXT, PREVIOUS).shown() == ("P1", "P2")
    nothing = Visit(Five())
    nothing.search("none")
    assert nothing.page == "results" and nothing.clickable() == [TO_SEARCH, NEXT]


def test_an_item_has_buttons_and_options():
    made = visit("p2")
    assert made.page == "item" and made.item.id == "P2" and made.seen == {"P2"}
    assert made.clickable() == [TO_SEARCH, PREVIOUS, *SUB_PAGES, BUY, "red", "blue", "oak"]


def test_options_are_chosen_one_of_each_group():
    assert visit("p1", "blue").chosen == {"color": "blue"}
    assert visit("p1", "blue", "oak", "red").chosen == {"color": "blue", "base": "red"}, (
        "both groups have red: the last"
    )


@pytest.mark.parametrize("page", SUB_PAGES)
def test_a_sub_page_leads_back_to_the_item_with_its_options(page):
    made = visit("p1", "blue", page)
    assert made.page == page and made.clickable() == [TO_SEARCH, PREVIOUS]
    made.click(PREVIOUS)
    assert made.page == "item" and made.chosen == {"color": "blue"}


def test_back_from_an_item_are_the_results_that_led_to_it():
    made = visit(NEXT, "p3", "blue", PREVIOUS)
    assert (made.page, made.number, made.item, made.chosen) == ("results", 2, None, {})
    made = visit("p1", "blue", TO_SEARCH)
    assert (made.page, made.hits, made.item, made.chosen, made.seen) == ("search", (), None, {}, {"P1"})


def test_a_search_is_possible_everywhere():
    made = visit("p1", "blue", "description")
    made.search("lamps again")
    assert (made.page, made.number, made.chosen) == ("results", 1, {})


def test_a_purchase_keeps_item_and_options_and_ends_the_visit():
    made = visit("p1", "blue", BUY)
    assert made.page == "done" and made.item.id == "P1" and made.chosen == {"color": "blue"} and made.clickable() == []


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from([*SUB_PAGES, BUY, PREVIOUS, NEXT, "p1", "P1", "red"]))))
def test_other_clicks_change_nothing(names):
    made = visit()
    for name in names:
        before, possible = made.state, made.clickable()
        made.click(name)
        assert name in possible or made.state == before


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_blank_search_changes_nothing(text):
    made = visit("p1")
    before = made.state
    made.search(text)
    assert made.state == before
