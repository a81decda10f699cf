"""`/admin/datasets/new` and `/admin/datasets/NAME/edit`: a query with its parameters, and its first rows beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import catalog_edits
from webapp.datasets.columns import Column
from webapp.datasets.declaration import Dataset, Parameter, ParameterType
from webapp.datasets.declared_parameters import ANY_DAY
from webapp.datasets.declaring import DeclaredDataset, DeclaredParameter
from webapp.datasets.likely_types import likely_type
from webapp.datasets.parameters import default_value
from webapp.datasets.placeholders import named_parameters
from webapp.datasets.relative import EXAMPLES as MOVING
from webapp.domain.access import NotFound
from webapp.domain.errors import AttemptFailed, ErrorCode, FieldError, Invalid, export_error
from webapp.domain.formats import FORMATS
from webapp.domain.limits import LIST_ITEMS
from webapp.domain.sentences import say
from webapp.language import gettext as _
from webapp.pages.preview import PreviewTable, table
from webapp.web.context import admin, resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, read_form
from webapp.web.render import fragment, is_fragment, page
from webapp.web.words import told_error

TITLE_LENGTH, DESCRIPTION_LENGTH, SQL_LENGTH, TEXT_LENGTH = 200, 2_000, 20_000, 2_000
MOST_PARAMETERS = 40
EXAMPLES = {ParameterType.DATE: "2026-01-31", ParameterType.DATETIME: "2026-01-31T14:30:00Z"}
TYPES = {
    ParameterType.STRING: say("text"),
    ParameterType.INTEGER: say("whole number"),
    ParameterType.NUMBER: say("number"),
    ParameterType.BOOLEAN: say("yes or no"),
    ParameterType.DATE: say("date"),
    ParameterType.DATETIME: say("date and time"),
    ParameterType.CHOICE: say("one of a list"),
    ParameterType.CHOICES: say("several of a list"),
    ParameterType.LIST: say("list of texts"),
}


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """As it stands in the form. `trial` is only for the preview; `choices` has one in each line, `DE = Germany`.

    `is_listed` when its choices come from a query that the file has.
    """

    name: str
    type: ParameterType = ParameterType.STRING
    label: str = ""
    required: bool = False
    default: str = ""
    choices: str = ""
    trial: str = ""
    is_listed: bool = False

    @property
    def has_value(self) -> bool:
        return bool(self.trial or self.default)


@dataclass(frozen=True, slots=True)
class Draft:
    name: str = ""
    title: str = ""
    description: str = ""
    source: str = ""
    sql: str = ""
    formats: Sequence[str] = tuple(FORMATS)
    rows: Sequence[ParameterRow] = ()
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """The first rows, or why there are none; `is_own` when that is a mistake in the form itself."""

    preview: PreviewTable | None = None
    trouble: str = ""
    is_own: bool = True
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: Sequence[Column] = ()


async def new(request: Request) -> Response:
    """Begins with the source that was asked for, or the one that was declared last."""
    admin(request)
    offered = catalog_edits.sources_for_queries(resources(request).catalog)
    asked = request.query_params.get("source", "")
    return await _form(request, Draft(source=asked if asked in offered else (offered or [""])[-1]))


async def edit(request: Request) -> Response:
    admin(request)
    return await _form(request, _stored(_dataset(request)))


async def create(request: Request) -> Response:
    return await _save(request, changes=False)


async def change(request: Request) -> Response:
    admin(request)
    _dataset(request)
    return await _save(request, changes=True)


async def look(request: Request) -> Response:
    """Finds the parameters of the query and shows its first rows; writes nothing."""
    admin(request)
    form = await read_form(request)
    draft = _sent(request, form, changes="name" in request.path_params)
    looked = await _looked(request, draft, form)
    draft = _with_likely_types(draft, form, looked.columns)
    if is_fragment(request):
        return fragment("admin/_draft.html", **_context(draft, looked))
    return await _form(request, draft, looked=looked)


async def _save(request: Request, *, changes: bool) -> Response:
    who, form = admin(request), await read_form(request)
    draft = _sent(request, form, changes=changes)
    try:
        declared = _declared(request, draft)
        await catalog_edits.save_dataset(
            resources(request), declared, changes=changes, seen=form.text("seen"), actor=who.name
        )
    except Invalid as invalid:
        return await _form(request, draft, 422, looked=Looked(errors=messages_by_field(invalid.errors)))
    return redirect(request, f"/admin/datasets/{draft.name}", flash("dataset-saved"))


async def _looked(request: Request, draft: Draft, form: Form) -> Looked:
    if not draft.sql:
        return Looked()
    try:
        declared = _declared(request, draft, for_preview=True)
        if any(row.required and not row.has_value for row in draft.rows):
            return Looked()
        several = {row.name for row in draft.rows if row.type is ParameterType.CHOICES}
        values: dict[str, Any] = {
            row.name: _lines(row.trial) if row.name in several else row.trial for row in draft.rows if row.trial
        }
        found = await catalog_edits.preview(
            resources(request), declared, values, changes=draft.changes, zone=viewer(request).timezone
        )
    except Invalid as invalid:
        return Looked(trouble=" ".join(messages_by_field(invalid.errors).values()))
    except AttemptFailed as failure:
        if failure.code is ErrorCode.QUERY_ERROR:
            return Looked(trouble=_(say("The data source refused the query: {detail}.", **failure.details)))
        return Looked(trouble=told_error(export_error(failure.code, **failure.details)), is_own=False)
    return Looked(table(found, {}), columns=found.columns)


def _with_likely_types(draft: Draft, form: Form, columns: Sequence[Column]) -> Draft:
    """What the form did not ask about yet gets a type by its use; what a person has chosen stays."""
    rows = [
        row if f"p.{row.name}.type" in form else replace(row, type=likely_type(draft.sql, row.name, columns))
        for row in draft.rows
    ]
    return replace(draft, rows=rows)


async def _form(request: Request, draft: Draft, status: int = 200, *, looked: Looked | None = None) -> Response:
    desk, seen, shown = resources(request), "", looked or Looked()
    try:
        seen = (await catalog_edits.content(desk)).digest
    except Invalid as invalid:
        shown = replace(shown, errors={**shown.errors, **messages_by_field(invalid.errors)})
    return page(
        request,
        "admin/dataset_form.html",
        status,
        **_context(draft, shown),
        seen=seen,
        sources=catalog_edits.sources_for_queries(desk.catalog),
        formats=FORMATS.values(),
        path_of_file=catalog_edits.file_of(desk).path,
        lengths={"title": TITLE_LENGTH, "description": DESCRIPTION_LENGTH, "sql": SQL_LENGTH},
    )


def _context(draft: Draft, looked: Looked) -> dict[str, Any]:
    action = f"/admin/datasets/{draft.name}/edit" if draft.changes else "/admin/datasets/new"
    return {
        "draft": draft,
        "action": action,
        "types": TYPES,
        "preview": looked.preview,
        "trouble": looked.trouble,
        "is_own": looked.is_own,
        "without_value": [f":{row.name}" for row in draft.rows if not row.has_value],
        "errors": looked.errors,
        "text_length": TEXT_LENGTH,
    }


def _dataset(request: Request) -> Dataset:
    """Raises NotFound, also for one that is no query."""
    catalog = resources(request).catalog
    dataset = catalog.datasets.get(request.path_params["name"])
    if dataset is None or dataset.source not in catalog_edits.sources_for_queries(catalog):
        raise NotFound
    return dataset


def _stored(dataset: Dataset) -> Draft:
    """As the file has it."""
    rows = [
        ParameterRow(
            parameter.name,
            parameter.type,
            parameter.label,
            parameter.required,
            _default_text(parameter),
            "\n".join(c.value if c.value == c.label else f"{c.value} = {c.label}" for c in parameter.choices),
            is_listed=parameter.choices_sql is not None,
        )
        for parameter in dataset.parameters
    ]
    return Draft(
        dataset.name, dataset.title, dataset.description, dataset.source, dataset.sql.strip(), dataset.formats, rows,
        changes=True,
    )  # fmt: skip


def _default_text(parameter: Parameter) -> str:
    default = parameter.default
    if default is None:
        return ""
    if isinstance(default, list):
        return ", ".join(cast(list[str], default))
    return str(default).lower() if isinstance(default, bool) else str(default)


def _sent(request: Request, form: Form, *, changes: bool) -> Draft:
    """A row for each parameter that the query has now; what was filled in for one that is gone is forgotten."""
    sql = form.text("sql").replace("\r\n", "\n").strip()
    listed = {p.name for p in _dataset(request).parameters if p.choices_sql is not None} if changes else set[str]()
    return Draft(
        name=request.path_params["name"] if changes else form.text("name").strip()[:64],
        title=form.text("title").strip(),
        description=form.text("description").replace("\r\n", "\n").strip(),
        source=form.text("source"),
        sql=sql,
        formats=tuple(name for name in FORMATS if name in form.all("formats")),
        rows=[_sent_row(form, name, is_listed=name in listed) for name in named_parameters(sql)[:MOST_PARAMETERS]],
        changes=changes,
    )


def _sent_row(form: Form, name: str, *, is_listed: bool) -> ParameterRow:
    start = f"p.{name}."
    kind = form.text(start + "type")
    return ParameterRow(
        name,
        ParameterType(kind) if kind in set(ParameterType) else ParameterType.STRING,
        form.text(start + "label").strip()[:TITLE_LENGTH],
        start + "required" in form,
        form.text(start + "default").strip()[:TEXT_LENGTH],
        form.text(start + "choices").replace("\r\n", "\n").strip()[: TEXT_LENGTH * 10],
        form.text(start + "trial").strip()[:TEXT_LENGTH],
        is_listed,
    )


def _declared(request: Request, draft: Draft, *, for_preview: bool = False) -> DeclaredDataset:
    """Raises Invalid with every mistake that needs no look at the source."""
    errors = _wrong(request, draft, for_preview=for_preview)
    parameters: list[DeclaredParameter] = []
    for row in draft.rows:
        try:
            parameters.append(_parameter(row))
        except Invalid as invalid:
            errors += invalid.errors
    if errors:
        raise Invalid(errors)
    formats = () if set(draft.formats) == set(FORMATS) else draft.formats
    return DeclaredDataset(
        draft.name, draft.title, draft.description, draft.source, draft.sql, formats, parameters
    )  # fmt: skip


def _wrong(request: Request, draft: Draft, *, for_preview: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    texts = [("sql", draft.sql, 1, SQL_LENGTH)]
    if not for_preview:
        texts += [("title", draft.title, 1, TITLE_LENGTH), ("description", draft.description, 0, DESCRIPTION_LENGTH)]
    for name, value, least, most in texts:
        if not least <= len(value) <= most or "\0" in value:
            told = say("This has {least} to {most} characters.", least=least, most=most)
            errors.append(FieldError(name, told))
    if draft.source not in catalog_edits.sources_for_queries(resources(request).catalog):
        errors.append(FieldError("source", say("Choose a source.")))
    if not draft.formats:
        errors.append(FieldError("formats", say("Choose at least one format.")))
    if len(named_parameters(draft.sql)) > MOST_PARAMETERS:
        errors.append(FieldError("sql", say("A form has at most {most} parameters.", most=MOST_PARAMETERS)))
    return errors


def _parameter(row: ParameterRow) -> DeclaredParameter:
    """Raises Invalid."""
    needs_choices = row.type.has_choices and not row.is_listed
    choices = [_choice(line) for line in _lines(row.choices)] if needs_choices else []
    if needs_choices and not 1 <= len(choices) <= LIST_ITEMS:
        told = say("Write 1 to {most} choices of {name}, one in each line.", name=f":{row.name}", most=LIST_ITEMS)
        raise Invalid([FieldError(f"p.{row.name}.choices", told)])
    return DeclaredParameter(row.name, row.type, row.label, row.required, _default(row), choices)


def _default(row: ParameterRow) -> Any:
    """As TOML has it. Raises Invalid."""
    text = row.default
    if not text:
        return None
    if row.type.is_multiple:
        return [part for part in (part.strip() for part in text.split(",")) if part]
    try:
        match row.type:
            case ParameterType.INTEGER:
                return int(text)
            case ParameterType.NUMBER:
                return float(text) if not text.lstrip("-").isdigit() else int(text)
            case ParameterType.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            case ParameterType.DATE | ParameterType.DATETIME:
                default_value(Parameter(row.name, row.type, row.name, default=text), ANY_DAY)
                return text
            case _:
                return text
    except (ValueError, KeyError):
        told = (
            say(
                "{name}: a default is a time such as {example}, or moves: {moving}.",
                name=f":{row.name}",
                example=EXAMPLES[row.type],
                moving=MOVING,
            )
            if row.type.is_temporal
            else say("{name}: this default does not fit its type.", name=f":{row.name}")
        )
        raise Invalid([FieldError(f"p.{row.name}.default", told)]) from None


def _choice(line: str) -> str | dict[str, str]:
    value, sign, label = (part.strip() for part in line.partition(" = "))
    return {"value": value, "label": label} if sign and label else line


def _lines(text: str) -> list[str]:
    return [line for line in (line.strip() for line in text.split("\n")) if line]
