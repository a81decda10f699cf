"""The parts of a workbook around its sheets: styles, names, relations and what the file says about itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC

from worker.formats.writer import Metadata
from worker.formats.xlsx_text import markup, utf16_cut, xml_text

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument"

STYLE_HEADER, STYLE_DATE, STYLE_MOMENT, STYLE_FRACTION, STYLE_TIME, STYLE_TIME_FRACTION = range(1, 7)
"""Positions in the `cellXfs` of STYLES."""

STYLES = (
    f'{HEAD}<styleSheet xmlns="{MAIN}"><numFmts count="5">'
    '<numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/>'
    '<numFmt numFmtId="166" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss.000"/>'
    '<numFmt numFmtId="167" formatCode="hh:mm:ss"/>'
    '<numFmt numFmtId="168" formatCode="hh:mm:ss.000"/></numFmts>'
    '<fonts count="2"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="7"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>'
    + "".join(
        f'<xf numFmtId="{number}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
        for number in range(164, 169)
    )
    + '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)

ROOT_RELATIONS = (
    f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/>'
    f'<Relationship Id="rId2" Type="{PACKAGE}/relationships/metadata/core-properties" Target="docProps/core.xml"/>'
    f'<Relationship Id="rId3" Type="{RELATIONS}/extended-properties" Target="docProps/app.xml"/>'
    f'<Relationship Id="rId4" Type="{RELATIONS}/custom-properties" Target="docProps/custom.xml"/></Relationships>'
)

APP = (
    f'{HEAD}<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/extended-properties">'
    "<Application>Exportdesk</Application></Properties>"
)

SHEET_NAME_UNITS = 31
FORBIDDEN_IN_SHEET_NAME = re.compile(r"[\[\]:*?/\\\x00-\x1f\ufffe\uffff\ud800-\udfff]+")
RESERVED_SHEET_NAMES = frozenset({"", "history"})


def sheet_name(title: str, number: int) -> str:
    """The title as spreadsheets allow it: at most 31 UTF-16 units, with ` 2`, ` 3` … on further sheets."""
    words = " ".join(FORBIDDEN_IN_SHEET_NAME.sub(" ", title).split())
    suffix = f" {number}" if number > 1 else ""
    name = utf16_cut(words.strip("' "), SHEET_NAME_UNITS - len(suffix)).rstrip("' ")
    return ("Data" if name.lower() in RESERVED_SHEET_NAMES else name) + suffix


def workbook(names: Sequence[str]) -> str:
    sheets = "".join(
        f'<sheet name="{_attribute(name)}" sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(names, 1)
    )
    return (
        f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><bookViews><workbookView/></bookViews>'
        f"<sheets>{sheets}</sheets></workbook>"
    )


def workbook_relations(sheets: int) -> str:
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, sheets + 1)
    )
    styles = f'<Relationship Id="rId{sheets + 1}" Type="{RELATIONS}/styles" Target="styles.xml"/>'
    return f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{links}{styles}</Relationships>'


def content_types(sheets: int) -> str:
    parts = {f"/xl/worksheets/sheet{n}.xml": f"{TYPES}.spreadsheetml.worksheet+xml" for n in range(1, sheets + 1)}
    parts |= {
        "/xl/workbook.xml": f"{TYPES}.spreadsheetml.sheet.main+xml",
        "/xl/styles.xml": f"{TYPES}.spreadsheetml.styles+xml",
        "/docProps/core.xml": "application/vnd.openxmlformats-package.core-properties+xml",
        "/docProps/app.xml": f"{TYPES}.extended-properties+xml",
        "/docProps/custom.xml": f"{TYPES}.custom-properties+xml",
    }
    overrides = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in parts.items())
    return (
        f'{HEAD}<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )


def core_properties(context: Metadata) -> str:
    return (
        f'{HEAD}<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"<dc:title>{_plain(context.title)}</dc:title><dc:creator>Exportdesk</dc:creator>"
        f'<dcterms:created xsi:type="dcterms:W3CDTF">{_instant(context)}</dcterms:created></cp:coreProperties>'
    )


def custom_properties(context: Metadata, rows: int) -> str:
    """Dataset, parameters (JSON), time and row count, as anybody can read them under File → Properties."""
    values = {
        "Dataset": f"<vt:lpwstr>{_plain(context.dataset)}</vt:lpwstr>",
        "Parameters": f"<vt:lpwstr>{_plain(_parameters(context))}</vt:lpwstr>",
        "Exported at": f"<vt:filetime>{_instant(context)}</vt:filetime>",
        "Rows": f"<vt:i4>{rows}</vt:i4>" if rows < 2**31 else f"<vt:r8>{rows}</vt:r8>",
    }
    properties = "".join(
        f'<property fmtid="{{D5CDD505-2E9C-101B-9397-08002B2CF9AE}}" pid="{number}" name="{name}">{value}</property>'
        for number, (name, value) in enumerate(values.items(), 2)
    )
    return (
        f'{HEAD}<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/custom-properties" '
        f'xmlns:vt="http://schemas.openxmlformats.org/officeDocument/2006/docPropsVTypes">{properties}</Properties>'
    )


def _parameters(context: Metadata) -> str:
    return json.dumps(dict(context.parameters), ensure_ascii=False, default=str)


def _instant(context: Metadata) -> str:
    return context.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _attribute(text: str) -> str:
    return markup(text).replace('"', "&quot;")


def _plain(text: str) -> str:
    return markup(xml_text(text))
