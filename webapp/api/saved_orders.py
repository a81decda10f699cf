"""The JSON API of saved orders: save, list, change, order again, delete, restore."""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import saved_orders
from webapp.actions.exports import Order
from webapp.api.exports import export_response, idempotency_key, json_response
from webapp.api.requests import DatasetName, FormatName, Name, OptionValues, Params, read_body
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.saved_orders import saved_order_json
from webapp.web.context import resources, saved_order_id, viewer


class SavedOrderBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A date may be given in words: `start of last month`, `today - 7d`."""

    name: Name
    dataset: DatasetName
    params: Params = {}
    format: FormatName = "csv"
    options: OptionValues = {}
    zone: str | None = None


class SavedOrderChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is left out stays as it is."""

    name: Name = UNSET
    dataset: DatasetName | msgspec.UnsetType = UNSET
    params: Params | msgspec.UnsetType = UNSET
    format: FormatName | msgspec.UnsetType = UNSET
    options: OptionValues | msgspec.UnsetType = UNSET
    zone: str | msgspec.UnsetType = UNSET


async def index(request: Request) -> Response:
    """All of one's own, by name."""
    found = await saved_orders.list_own(resources(request), viewer(request))
    return json_response({"items": [saved_order_json(saved) for saved in found], "next_cursor": None})


async def create(request: Request) -> Response:
    who, body = viewer(request), await read_body(request, SavedOrderBody)
    wanted = Order(body.dataset, body.params, body.format, body.options, body.zone)
    saved = await saved_orders.save(resources(request), who, body.name, wanted, defaults=API_DEFAULTS)
    location = f"{resources(request).settings.base_url}/api/v1/saved-orders/{saved.id}"
    return json_response(saved_order_json(saved), 201, {"Location": location})


async def show(request: Request) -> Response:
    saved = await saved_orders.get(resources(request), viewer(request), saved_order_id(request))
    return json_response(saved_order_json(saved))


async def edit(request: Request) -> Response:
    """The name alone, or any part of the order, which is then checked as a whole."""
    desk, who, saved_id = resources(request), viewer(request), saved_order_id(request)
    sent = {name: value for name, value in msgspec.structs.asdict(await read_body(request, SavedOrderChange)).items()
            if value is not UNSET}  # fmt: skip
    if set(sent) <= {"name"}:
        before = await saved_orders.get(desk, who, saved_id)
        saved = await saved_orders.rename(desk, who, saved_id, sent["name"]) if sent else before
        return json_response(saved_order_json(saved))
    before = await saved_orders.get(desk, who, saved_id)
    order = {name: getattr(before, name) for name in ("dataset", "params", "format", "options", "zone")}
    name = sent.pop("name", before.name)
    wanted = Order(**{**order, **sent})
    saved = await saved_orders.edit(desk, who, saved_id, name, wanted, defaults=API_DEFAULTS)
    return json_response(saved_order_json(saved))


async def order(request: Request) -> Response:
    """As `POST /exports`: 202 with a new export, or 200 with the one that already answers this order."""
    export, is_new = await saved_orders.order(
        resources(request), viewer(request), saved_order_id(request), idempotency_key=idempotency_key(request)
    )
    return await export_response(request, export, status=202 if is_new else 200)


async def delete(request: Request) -> Response:
    """204. It can be restored for a day."""
    await saved_orders.delete(resources(request), viewer(request), saved_order_id(request))
    return Response(status_code=204)


async def restore(request: Request) -> Response:
    saved = await saved_orders.restore(resources(request), viewer(request), saved_order_id(request))
    return json_response(saved_order_json(saved))
