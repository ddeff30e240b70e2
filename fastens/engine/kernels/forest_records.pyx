"""Random thresholds on small nodes whose rows have records of their own, as long as two classes and bytes suffice.

A branch's rows are copied to records; a split moves them from one of two buffers to the other, so that a node's records
lie side by side, and no row is looked for in the table any more. What a leaf holds goes back to the entries.
"""

from libc.string cimport memcpy

from .forest_random cimport CodeRange, draw_threshold, keep_threshold
from .forest_scan cimport Groups, consider_left
from .forest_tree cimport (
    MAX_RECORD_BYTES, RECORD_BYTES, RECORD_TAIL, Entry, Forest, FoundSplit, NodeSums, Open, RecordCounts, RecordLimits,
    RecordRanges, Room, Sample
)
from .random cimport random_bits
from .structs cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "forest_records.h" nogil:
    void record_ranges(const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, RecordRanges* ranges)
    void record_counts(
        const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, const RecordLimits* limits, RecordCounts* counts
    )
    Py_ssize_t part_records(
        const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, Py_ssize_t feature, uint8_t shift,
        uint8_t limit, uint8_t* to
    )


cdef Py_ssize_t record_bytes(const Forest* forest) noexcept nogil:
    """Size of a record; 0 where rows have none."""
    cdef Py_ssize_t n = forest.table.n_features + RECORD_TAIL
    if not forest.rules.random_thresholds or forest.table.code_size != 1 or forest.rules.max_leaves > 0:
        return 0
    if forest.table.has_categories or forest.targets.classes == NULL or n > MAX_RECORD_BYTES:
        return 0
    return <Py_ssize_t>RECORD_BYTES if n <= RECORD_BYTES else <Py_ssize_t>MAX_RECORD_BYTES


cdef bint has_records(const Forest* forest, const Sample* sample) noexcept nogil:
    """Whether rows of branches get records: all rows of a class count alike, and three bytes tell them apart."""
    return sample.layout.packed and sample.by_class and record_bytes(forest) > 0 and sample.n_entries < 1 << 24


cdef inline void _write_record(
    const Forest* forest, const Sample* sample, const Entry* entry, Py_ssize_t place, Py_ssize_t n_bytes, uint8_t* record
) noexcept nogil:
    cdef uint8_t* tail = record + n_bytes - RECORD_TAIL
    memcpy(record, forest.table.records + <Py_ssize_t>entry.row * forest.table.record_stride, forest.table.n_features)
    tail[0], tail[1], tail[2] = <uint8_t>place, <uint8_t>(place >> 8), <uint8_t>(place >> 16)
    tail[3] = (entry.word >> sample.layout.number_shift) != 0


cdef void make_records(const Forest* forest, const Sample* sample, Room* room, Open* open) noexcept nogil:
    """Copy the rows of a branch."""
    cdef Py_ssize_t i, n = open.end - open.begin, n_bytes = record_bytes(forest)
    room.n_record_bytes, room.first_record = n_bytes, open.begin
    memcpy(sample.scratch + open.begin, sample.entries + open.begin, n * sizeof(Entry))
    for i in range(n):
        _write_record(forest, sample, sample.entries + open.begin + i, i, n_bytes, room.records[0] + i * n_bytes)
    open.buffer = 1


cdef const uint8_t* records_of(const Room* room, const Open* open) noexcept nogil:
    """The node's records; NULL where it has none."""
    if open.buffer == 0:
        return NULL
    return room.records[open.buffer - 1] + (open.begin - room.first_record) * room.n_record_bytes


cdef void read_ranges(Room* room, const NodeSums* node) noexcept nogil:
    """Smallest and largest code of all features."""
    record_ranges(node.records, node.n_rows, room.n_record_bytes, &room.ranges)


cdef inline CodeRange _range(const Room* room, int32_t feature) noexcept nogil:
    cdef CodeRange range_
    range_.smallest = <uint32_t>room.ranges.smallest[feature] + 1
    range_.largest = room.ranges.largest[feature]
    range_.has_missing = room.ranges.largest_less[feature] == 255
    return range_


cdef void count_records(
    const Forest* forest, Room* room, const NodeSums* node, uint64_t key, const int32_t* features, int32_t n
) noexcept nogil:
    """Draw the thresholds of some features, and count what goes left."""
    cdef Groups groups
    cdef CodeRange range_
    cdef bint missing_left
    cdef int32_t i, f
    for i in range(n):
        f = groups.feature = features[i]
        groups.key = random_bits(key, ~<uint64_t>f)
        range_ = _range(room, f)
        room.last_codes[f] = draw_threshold(forest, &groups, &range_, &missing_left)
        room.limits.shift[f] = <uint8_t>(1 - missing_left)
        room.limits.limit[f] = <uint8_t>(room.last_codes[f] - room.limits.shift[f])
    record_counts(node.records, node.n_rows, room.n_record_bytes, &room.limits, &room.counts)


cdef void search_record(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil:
    """Keep the split at the threshold drawn if it is better than the best so far."""
    cdef int32_t f = groups.feature
    cdef uint64_t second = room.counts.second[f], first = room.counts.rows[f] - second
    cdef CodeRange range_ = _range(room, f)
    groups.n = 1 if room.last_codes[f] == 0 else 2
    if groups.n == 1:
        return
    room.left[0] = first * sample.class_words[0] + second * sample.class_words[1]
    consider_left(forest, sample, room, node, f, best)
    if best.feature == f:
        keep_threshold(node, &range_, room.last_codes[f], room.limits.shift[f] == 0, best)


cdef int64_t part_node(const Room* room, const Open* open) noexcept nogil:
    """Move the node's records to the other buffer, those that go left to the front; return how many."""
    cdef uint8_t* to = room.records[2 - open.buffer] + (open.begin - room.first_record) * room.n_record_bytes
    cdef uint8_t shift = <uint8_t>(1 - open.split.missing_left)
    return part_records(
        records_of(room, open), open.end - open.begin, room.n_record_bytes, open.split.feature, shift,
        <uint8_t>(open.split.last_code - shift), to
    )


cdef void settle(const Sample* sample, const Room* room, const Open* open) noexcept nogil:
    """Write the entries of a leaf."""
    cdef Py_ssize_t i, place
    cdef const uint8_t* tail = records_of(room, open) + room.n_record_bytes - RECORD_TAIL
    for i in range(open.begin, open.end):
        place = <Py_ssize_t>tail[0] | <Py_ssize_t>tail[1] << 8 | <Py_ssize_t>tail[2] << 16
        sample.entries[i] = sample.scratch[room.first_record + place]
        tail += room.n_record_bytes
