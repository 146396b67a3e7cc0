"""Stand-ins for the Python functions that the examples name. A real one calls a service; these make up its answer."""

from __future__ import annotations

from penstock import StepContext, step


@step(name="shop.payments:refund")
async def refund(order_id: str, amount: float, *, context: StepContext) -> dict[str, object]:
    """Pay an amount back."""
    return {"amount": amount, "reference": f"RF-{order_id}"}


@step(name="office.equipment:order")
async def order_laptop(person: str, needed_by: str) -> dict[str, str]:
    """Order a laptop."""
    return {"order": f"laptop for {person} by {needed_by}"}


@step(name="office.equipment:lend")
async def lend_laptop(person: str) -> dict[str, str]:
    """Lend a laptop from the shelf."""
    return {"lent": f"laptop 7 to {person}"}


@step(name="ledger.invoices:post")
async def post_invoice(document: str, amount: float, currency: str) -> dict[str, str]:
    """Post an invoice."""
    return {"number": f"P-{document}"}


@step(name="travel.flights:book")
async def book_flight(traveller: str, to: str) -> dict[str, object]:
    """Book a flight."""
    return {"booking": f"F-{to}", "price": 320.0}


@step(name="travel.flights:cancel")
async def cancel_flight(booking: str) -> None:
    """Cancel a flight."""


@step(name="travel.hotels:book")
async def book_hotel(traveller: str, near: str, nights: int) -> dict[str, object]:
    """Book a hotel."""
    return {"booking": f"H-{near}", "price": 90.0 * nights}


@step(name="travel.hotels:cancel")
async def cancel_hotel(booking: str) -> None:
    """Cancel a hotel."""


@step(name="travel.cars:book")
async def book_car(traveller: str, at: str, days: int) -> dict[str, object]:
    """Book a rental car."""
    return {"booking": f"C-{at}", "price": 40.0 * days}


@step(name="travel.cars:cancel")
async def cancel_car(booking: str | None) -> None:
    """Cancel a rental car."""


@step(name="travel.payments:charge")
async def charge(traveller: str, amount: float) -> dict[str, float]:
    """Charge a traveller."""
    return {"amount": amount}
