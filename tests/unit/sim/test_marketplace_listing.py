import json
from typing import Any

import pytest

from fleetagent.sim.marketplace.errors import Refused
from fleetagent.sim.marketplace.listing import page


def a_row(n: int, **changes: Any) -> dict[str, Any]:
    return {"id": n, "label": None, "actual_status": "running", "gpu_name": "RTX 4090", "dph_total": 0.4} | changes


def every_page(rows: list[dict[str, Any]], **params: str) -> list[list[int]]:
    pages, token = [], ""
    while True:
        answer = page(rows, params | ({"after_token": token} if token else {}))
        pages.append([row["id"] for row in answer["instances"]])
        token = answer["next_token"]
        if token is None:
            return pages


def test_pages_hold_at_most_twenty_five_rows_and_all_of_them_together_are_complete() -> None:
    rows = [a_row(n) for n in range(60, 0, -1)]

    pages = every_page(rows, limit="100")

    assert [len(ids) for ids in pages] == [25, 25, 10]
    assert [n for ids in pages for n in ids] == list(range(1, 61))


def test_a_page_says_how_many_there_are_in_all() -> None:
    answer = page([a_row(1, label="a"), a_row(2), a_row(3)], {"limit": "2"})

    assert (answer["success"], answer["instances_found"], answer["total_instances"]) == (True, 2, 3)
    assert answer["label_counts"] == {"a": 1, "": 2}


def test_a_full_last_page_has_no_next_token() -> None:
    assert page([a_row(1), a_row(2)], {"limit": "2"})["next_token"] is None


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_limit_that_is_not_positive_means_five(limit: str) -> None:
    assert len(page([a_row(n) for n in range(9)], {"limit": limit})["instances"]) == 5


def test_a_machine_that_goes_between_two_pages_does_not_hide_another() -> None:
    rows = [a_row(n) for n in range(1, 5)]
    first = page(rows, {"limit": "2"})

    second = page(rows[1:], {"limit": "2", "after_token": first["next_token"]})

    assert [row["id"] for row in second["instances"]] == [3, 4]


def test_order_by_a_nullable_column_pages_through_everything() -> None:
    rows = [a_row(1, label="b"), a_row(2), a_row(3, label="a"), a_row(4)]

    pages = every_page(rows, limit="1", order_by=json.dumps([{"col": "label", "dir": "desc"}]))

    assert pages == [[1], [3], [2], [4]]


def test_filters_narrow_the_rows_and_the_totals() -> None:
    answer = page([a_row(n) for n in range(9)], {"select_filters": json.dumps({"id": {"eq": 4}}), "limit": "1"})

    assert [row["id"] for row in answer["instances"]] == [4]
    assert answer["total_instances"] == 1


def test_selected_columns_come_alone_and_unknown_ones_are_null() -> None:
    answer = page([a_row(1)], {"select_cols": json.dumps(["id", "colour"])})

    assert answer["instances"] == [{"id": 1, "colour": None}]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"select_filters": '{"dph_total": {"lt": 1}}'}, "invalid_request"),
        ({"select_filters": '{"label": "a"}'}, "invalid_request"),
        ({"select_filters": "{"}, "invalid_request"),
        ({"select_filters": "[]"}, "invalid_request"),
        ({"order_by": '[{"col": "num_gpus", "dir": "asc"}]'}, "invalid_request"),
        ({"limit": "many"}, "invalid_request"),
        ({"after_token": "%%%"}, "invalid_token"),
        ({"after_token": "e30="}, "invalid_token"),
    ],
)
def test_a_request_that_the_listing_cannot_serve_is_refused(params: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as refusal:
        page([a_row(1)], params)

    assert (refusal.value.status, refusal.value.body["error"]) == (400, code)
