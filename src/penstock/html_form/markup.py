"""Fields as HTML: every text of a schema, of a person and of an error is escaped.

Above it: `form`. Below it: `fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.visible_texts import visible_text
from penstock.html_form.fields import PREFIX, Field, Given, Wrong, item_at, item_count, items_key, variant_key

__all__ = ["EDIT", "SECRET_FIELD", "html_of"]

EDIT = "form.edit"
"""The name of the buttons that change the form itself: they add an item to a list, or remove one."""
SECRET_FIELD = "secret_field"
"""A hidden field that names a field with a secret, so that pages mask it when they show the form data again."""
_INPUTS = {"email": "email", "uri": "url", "date": "date"}
_SCHEMA_CHARACTERS_MAX = 400
_LONG_TEXT_CHARACTERS = 400
# What a browser can validate before it sends the form.
_BOUNDS = {
    "text": (("minLength", "minlength"), ("maxLength", "maxlength")),
    "secret": (("minLength", "minlength"), ("maxLength", "maxlength")),
    "number": (("minimum", "min"), ("maximum", "max")),
    "integer": (("minimum", "min"), ("maximum", "max")),
}
_NOTES = {
    "wide": "A whole number of up to 64 bits.",
    "numbers": "Numbers separated by spaces, commas or line ends, or a JSON list.",
}


def html_of(field: Field, given: Given, wrong: Wrong) -> str:
    """Render a field with its previous text and its errors."""
    if field.control == "constant":
        return ""
    about, message = visible_text(_about(field, given)), visible_text("; ".join(wrong.get(field.path, ())))
    mistake = f'<small class="wrong" id="{_id(field)}-wrong">{escape(message)}</small>' if message else ""
    notes = mistake + (f'<small id="{_id(field)}-about">{escape(about)}</small>' if about else "")
    if field.is_composite and not _is_raw(field, given):
        return _composite(field, given, wrong, notes)
    described = [f"{_id(field)}-{part}" for part, there in (("wrong", message), ("about", about)) if there]
    more = f' aria-describedby="{" ".join(described)}"' if described else ""
    more += ' aria-invalid="true"' if message else ""
    control, label = _control(field, given, more), _label(field)
    if field.control == "boolean":
        return f'<p class="tick"><label>{control} {label}</label>{notes}</p>'
    if field.control == "several":
        return f"<fieldset><legend>{label}</legend>{control}{notes}</fieldset>"
    return f'<p><label for="{_id(field)}">{label}</label>{control}{notes}</p>'


def _id(field: Field) -> str:
    return escape(PREFIX + field.key, quote=True)


def _is_raw(field: Field, given: Given) -> bool:
    """Whether the value of a group, list or choice is written as JSON, because its fields could not show it."""
    return (PREFIX + field.key) in given


def _label(field: Field) -> str:
    label = escape(visible_text(field.label))
    if field.optional and field.control not in ("boolean", "several"):
        label += " <span>(optional)</span>"
    return label


def _about(field: Field, given: Given) -> str:
    """Return the notes that accompany the title."""
    found = field.schema.get("description")
    about = [found] if isinstance(found, str) else []
    if field.control == "json" or (field.is_composite and _is_raw(field, given)):
        shape = {name: value for name, value in field.schema.items() if name not in ("title", "description")}
        text = encode_bytes(shape).decode()
        fits = f" that fits {text}" if len(shape) > 1 and len(text) <= _SCHEMA_CHARACTERS_MAX else ""
        about.append(f"Written as JSON{fits}")
    elif note := _NOTES.get(field.control):
        about.append(note)
    if field.control == "numbers" and field.schema.get("maxItems"):
        about.append(f"Exactly {field.schema['maxItems']} items.")
    if field.nullable and not field.is_composite:
        about.append(
            'Empty means null; write "" for an empty text.' if field.control == "text" else "Empty means null."
        )
    return " ".join(about)


def _composite(field: Field, given: Given, wrong: Wrong, notes: str) -> str:
    match field.control:
        case "list":
            inner = _items(field, given, wrong)
        case "variant":
            inner = _variants(field, given, wrong)
        case _:
            inner = "\n".join(html_of(one, given, wrong) for one in field.fields)
    return f'<fieldset class="{field.control}"><legend>{_label(field)}</legend>{notes}{inner}</fieldset>'


def _items(field: Field, given: Given, wrong: Wrong) -> str:
    count, key = item_count(field, given), escape(field.key, quote=True)
    label = escape(visible_text(field.label))
    shown = "\n".join(
        f'<div class="item">{html_of(item_at(field, index), given, wrong)}'
        f'<button name="{EDIT}" value="remove {key}/{index}" formnovalidate aria-label="Remove {label} {index + 1}">'
        "Remove</button></div>"
        for index in range(count)
    )
    most = field.schema.get("maxItems")
    is_full = count >= min(most if isinstance(most, int) else limits.FORM_ITEMS_MAX, limits.FORM_ITEMS_MAX)
    words = "Add another" if count else "Add one"
    add = f'<button name="{EDIT}" value="add {key}" formnovalidate aria-label="{words} to {label}">{words}</button>'
    hidden = f'<input type="hidden" name="{escape(items_key(field.key), quote=True)}" value="{count}">'
    return f"{hidden}{shown}{'' if is_full else f'<p>{add}</p>'}"


def _variants(field: Field, given: Given, wrong: Wrong) -> str:
    name = escape(variant_key(field.key), quote=True)
    chosen = (given.get(variant_key(field.key)) or [""])[0]
    shown = []
    for number, inner in enumerate(field.fields):
        fields = inner.fields if inner.control == "group" and not _is_raw(inner, given) else (inner,)
        ticked = " checked" if str(number) == chosen else ""
        shown.append(
            f'<div class="option"><label><input type="radio" name="{name}" value="{number}"{ticked}>'
            f" {escape(visible_text(inner.label))}</label>"
            f'<div class="inner">{"".join(html_of(one, given, wrong) for one in fields)}</div></div>'
        )
    return "".join(shown)


def _control(field: Field, given: Given, more: str) -> str:
    texts = given.get(PREFIX + field.key, ())
    # What was sent without a tick has no tick, whatever the default is.
    first = texts[0] if texts else ("" if given and field.control == "boolean" else _default(field))
    needed = " required" if field.required and not field.nullable else ""
    named = f'name="{_id(field)}" id="{_id(field)}"{more}{_bounds(field)}'
    if field.is_composite:
        return _text_area(named, first, needed)
    match field.control:
        case "boolean":
            return f'<input type="checkbox" value="true" {named}{" checked" if first == "true" else ""}>'
        case "choice":
            empty = "" if needed and first else '<option value=""></option>'
            return f"<select {named}{needed}>{empty}{_options(field, first)}</select>"
        case "several":
            return _ticks(field, texts if given else _defaults(field))
        case "json" | "numbers":
            return _text_area(named, first, needed)
        case "secret":
            mark = f'<input type="hidden" name="{SECRET_FIELD}" value="{_id(field)}">'
            return f'<input type="password" autocomplete="off" {named}{needed}>{mark}'
        case "number" | "integer":
            step = "any" if field.control == "number" else "1"
            return f'<input type="number" step="{step}" {named} value="{escape(first)}"{needed}>'
        case "wide":
            return f'<input inputmode="numeric" {named} value="{escape(first)}"{needed}>'
        case _:
            return _text_input(field, named, first, needed)


def _text_input(field: Field, named: str, text: str, needed: str) -> str:
    most = field.schema.get("maxLength")
    if "\n" in text or (isinstance(most, int) and most > _LONG_TEXT_CHARACTERS):
        return _text_area(named, text, needed, spellcheck="true")
    kind = _INPUTS.get(str(field.schema.get("format")), "text")
    return f'<input type="{kind}" {named} value="{escape(text)}"{needed}>'


def _text_area(named: str, text: str, needed: str, spellcheck: str = "false") -> str:
    # A browser drops the first line end of a text area, so there is one to drop.
    return f'<textarea {named} rows="4" spellcheck="{spellcheck}"{needed}>\n{escape(text)}</textarea>'


def _ticks(field: Field, chosen: Sequence[str]) -> str:
    return "".join(
        f'<label><input type="checkbox" name="{_id(field)}" value="{escape(item.text)}"'
        f"{' checked' if item.text in chosen else ''}> {escape(visible_text(item.label))}</label>"
        for item in field.choices
    )


def _options(field: Field, chosen: str) -> str:
    return "".join(
        f'<option value="{escape(item.text)}"{" selected" if item.text == chosen else ""}>'
        f"{escape(visible_text(item.label))}</option>"
        for item in field.choices
    )


def _bounds(field: Field) -> str:
    known = ((word, field.schema.get(name)) for name, word in _BOUNDS.get(field.control, ()))
    return "".join(
        f' {word}="{bound}"' for word, bound in known if isinstance(bound, int | float) and not isinstance(bound, bool)
    )


def _default(field: Field) -> str:
    found = field.schema.get("default")
    if found is None:
        return ""
    return found if isinstance(found, str) else encode_bytes(found).decode()


def _defaults(field: Field) -> list[str]:
    found = field.schema.get("default")
    listed = found if isinstance(found, list) else []
    return [item.text for item in field.choices if item.value in listed]
