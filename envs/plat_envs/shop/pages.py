"""The text of pages in the chat rendering: pieces joined by `[SEP]`, as released, and the actions that are possible."""

from __future__ import annotations

from plat_envs.shop.product import Product
from plat_envs.shop.visit import SUB_PAGES, Visit

SEPARATOR = " [SEP] "


def page_text(visit: Visit, instruction: str) -> str:
    """Return the text of the open page under the instruction."""
    name = ["WebShop"] if visit.page == "search" else []
    return SEPARATOR.join([*name, "Instruction:", instruction, *_pieces(visit)])


def _pieces(visit: Visit) -> list[str]:
    if visit.page == "search":
        return ["Search"]
    if visit.page == "done":
        return ["Thank you for shopping with us!"]
    if visit.page == "results":
        return _results(visit)
    item = visit.item
    assert item is not None  # all other pages are of an item
    return [
        "Back to Search",
        "< Prev",
        *(_sub_page(visit.page, item) if visit.page in SUB_PAGES else _item(item, visit.chosen)),
    ]


def _results(visit: Visit) -> list[str]:
    pieces = ["Back to Search", f"Page {visit.number} (Total results: {len(visit.hits)})"]
    pieces += [button for button in ("< Prev", "Next >") if button.lower() in visit.clickable()]
    for product_id in visit.shown():
        product = visit.shop.product(product_id)
        pieces += [product.id, product.title, product.price_tag]
    return pieces


def _item(item: Product, chosen: dict[str, str]) -> list[str]:
    """Return the pieces of an item's page. What was chosen stands there too, so that a page is the whole state."""
    pieces = [piece for name, values in item.options.items() for piece in (name, *values)]
    pieces += [f"Chosen {name}: {value}" for name, value in chosen.items()]
    return [
        *pieces,
        *(item.title, f"Price: {item.price_tag}", "Rating: N.A."),
        *(page.capitalize() for page in SUB_PAGES),
        "Buy Now",
    ]


def _sub_page(page: str, item: Product) -> list[str]:
    """Return the texts of a sub-page. Published products come without reviews, and generated ones have none."""
    if page == "description":
        return [item.description]
    return list(item.bullets) if page == "features" else []


def possible_actions(visit: Visit) -> list[str]:
    """Return the actions that the page shows. A search is listed where there is a search bar, but works everywhere."""
    clicks = [f"click[{name}]" for name in visit.clickable()]
    return ["search[<content>]", *clicks] if visit.page == "search" else clicks
