"""Small binary table files for the tests: workbooks of Excel 97 and Excel 2007 binary, and a data set of SAS."""

import base64
import io
import struct
import zipfile
import zlib

# A SAS data set of six rows: region (text), n (one value is missing), y and day (a date).
SAS = zlib.decompress(
    base64.b85decode(
        b"c-rlm&ui0Q7{{MCO}o@qX-5t{3=Gr54mBjCD;w;PU@Hn$2JOLvpn|p8rG?qScCvy;PoB2F!<!%!5j={AfrtJDo;=N8b1}{PX36_(p_Nfl_I_x1"
        b"@_h5WKl7A6X#gVLet!1gm0JAp=A{DJ_vVYz<wDU~1j{0lNoa@)kRqIJkt-IcDrhMZ_S1Bl+KpR{dd+D$&3a2q0wyqSAB)otsv{?6c?$F(NM6;A"
        b"iecVfZftb7wqv@bn}%*&GtH`@o2G8!?zUH|_p237(i(Sq_3*&)yRSz_Xr2OrKp+qZ1OkCTAQ1dB>_yM59JvfTk>(-qn@@S_E~WUmA=68!y?cS$"
        b"yArRLn7$qg?16ohrFISJ1E$|YdMzPdX1a~$^G-Qkf1aS%Cg^C`QyD(qxBG5ed(zwLyWEup+U>xkwzF?{dz*dt#GfK%7Uu-kPK;Z&<95(V82971"
        b"r*u)*gScU0e+AaxDz$D>oIoHD2+lJ{KfM5~XA|OAK%T1oS;zlt?P+swiTUAgqzq}lK8V(u^3NsU$2nweZvtOO1$!q)#Zypr$OIJR7my#vL-PW-"
        b"3bd>%v%1A#wgRZEgI}!eS|q9X{Y~(Gr&V9yY<D(#T>$?BJO1(L;m-Ko4gZehkY8uGD|0i-$^0C@zv0egP~Db6>m_J@*!NIe8pWkiP7t(C?6cIH"
        b"n0r5_jQj4LEtmf{4t(PGC*-To*nVODC3L-LEYjy0lm{5xZ}{EL9hb`d^)kv6@0{I_Sv`;bDdG1_LVgbU7m+`Yd}U@URbsiN#>UA9=L=JgEc-Jh"
        b"C$hJFe3nVxnt<N`3kHz"
    )
)
SAS_ROWS = {
    "region": ["the south", "north", "north", "the south", "north", "north"],
    "n": [0, 7, 14, 21, None, 4],
    "y": [0, 17.5, 35, 21, 38.5, 25],
    "day": [f"2020-01-0{day}" for day in range(1, 7)],
}
_FREE, _END, _NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF
_SECTOR = 512


def _is_text(cell):
    return isinstance(cell, str)


def xls(rows, sheet="one"):
    """Return a workbook of Excel 97 (BIFF8 in a compound file); empty texts are empty cells."""

    def record(kind, content=b""):
        return struct.pack("<HH", kind, len(content)) + content

    def cell(row, column, value):
        place = struct.pack("<HHH", row, column, 0)
        if _is_text(value):
            text = value.encode("utf-16-le")
            return record(0x204, place + struct.pack("<HB", len(text) // 2, 1) + text)
        return record(0x203, place + struct.pack("<d", value))

    def begin(kind):
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0))

    cells = [cell(i, j, value) for i, row in enumerate(rows) for j, value in enumerate(row) if value not in ("", None)]
    width = max(map(len, rows))
    size = record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, width, 0))
    named = struct.pack("<BB", len(sheet), 0) + sheet.encode()
    end = record(0x0A)
    offset = len(begin(5)) + 4 + 6 + len(named) + len(end)
    book = begin(5) + record(0x85, struct.pack("<IBB", offset, 0, 0) + named) + end
    return _compound_file("Workbook", book + begin(0x10) + size + b"".join(cells) + end)


def _compound_file(name, content):
    """Return a compound file with one stream."""
    content = content.ljust(4096, b"\0")
    n_sectors = -(-len(content) // _SECTOR)
    fat = [_END - 1, _END, *range(3, n_sectors + 2), _END]
    fat += [_FREE] * (_SECTOR // 4 - len(fat))

    def entry(label, kind, child, start, size):
        text = label.encode("utf-16-le") + b"\0\0"
        head = text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text), kind, 1, _NONE, _NONE, child)
        return head.ljust(116, b"\0") + struct.pack("<IQ", start, size)

    folder = entry("Root Entry", 5, 1, _END, 0) + entry(name, 2, _NONE, 2, len(content))
    header = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, _END, 0, _END, 0) + struct.pack("<I", 0)
    header += struct.pack("<I", _FREE) * 108
    return (
        header
        + struct.pack(f"<{len(fat)}I", *fat)
        + folder.ljust(_SECTOR, b"\0")
        + content.ljust(n_sectors * _SECTOR, b"\0")
    )


def xlsb(rows, sheet="one"):
    """Return a binary workbook of Excel 2007; empty texts are empty cells."""

    def varied(number):
        found = b""
        while number >= 0x80:
            found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
        return found + bytes([number])

    def record(kind, content=b""):
        return varied(kind) + varied(len(content)) + content

    def wide(text):
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def cell(column, value):
        place = struct.pack("<II", column, 0)
        if _is_text(value):
            return record(6, place + wide(value))
        return record(5, place + struct.pack("<d", value))

    width = max(map(len, rows))
    data = record(0x81) + record(0x94, struct.pack("<IIII", 0, len(rows) - 1, 0, width - 1)) + record(0x91)
    for i, row in enumerate(rows):
        data += record(0, struct.pack("<IIHBBBI", i, 0, 300, 0, 0, 0, 0))
        data += b"".join(cell(j, value) for j, value in enumerate(row) if value not in ("", None))
    data += record(0x92) + record(0x82)
    bundle = record(0x9C, struct.pack("<II", 0, 1) + wide("rId1") + wide(sheet))
    book = record(0x83) + record(0x8F) + bundle + record(0x90) + record(0x84)
    office = "http://schemas.openxmlformats.org"
    kind = f"{office}/officeDocument/2006/relationships/worksheet"
    relation = f'<Relationship Id="rId1" Type="{kind}" Target="worksheets/sheet1.bin"/>'
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{office}/package/2006/content-types"/>')
        links = f'<Relationships xmlns="{office}/package/2006/relationships">{relation}</Relationships>'
        archive.writestr("xl/_rels/workbook.bin.rels", links)
        archive.writestr("xl/workbook.bin", book)
        archive.writestr("xl/worksheets/sheet1.bin", data)
    return content.getvalue()
