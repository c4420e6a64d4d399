package ack

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"shardway/shardmap"
)

const (
	maxUint   = math.MaxUint64
	maxUint32 = math.MaxUint32
	maxWeight = 1000
)

// writer appends encoded values to buf. Its methods cannot fail. The caller must ensure that
// values are within the limits that reader checks.
type writer struct{ buf []byte }

// byte appends one byte.
func (w *writer) byte(v byte) { w.buf = append(w.buf, v) }

// uint appends an unsigned varint.
func (w *writer) uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

// bytes appends a byte string with its length.
func (w *writer) bytes(v []byte) {
	w.uint(uint64(len(v)))
	w.buf = append(w.buf, v...)
}

// text appends a text with its length.
func (w *writer) text(v string) {
	w.uint(uint64(len(v)))
	w.buf = append(w.buf, v...)
}

// bool appends 1 for true and 0 for false.
func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
		return
	}
	w.byte(0)
}

// writeTiming appends a Timing.
func (w *writer) writeTiming(timing Timing) {
	w.uint(uint64(timing.Lease))
	w.uint(uint64(timing.DeadAfter))
	w.byte(byte(timing.Takeover))
	w.byte(byte(timing.RebalanceMode))
}

// reader decodes values from the beginning of buf. After the first error, every read returns a zero
// value, so a decoder needs to check the error only once, with finish. All errors wrap ErrCorrupt.
// Encodings are unique: the reader rejects padded numbers and other alternatives, so that equal
// states have equal bytes on every node.
type reader struct {
	buf     []byte
	err     error
	version FormatVersion // of the encoding, once readFormatVersion has read it
}

// fail records an error, unless there is one already, and drops the remaining input.
func (r *reader) fail(reason string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, reason)
		r.buf = nil
	}
}

// read returns the next n bytes; nil after an error.
func (r *reader) read(n int) []byte {
	if r.err == nil && n > len(r.buf) {
		r.fail("cut short")
	}
	if r.err != nil {
		return nil
	}
	v := r.buf[:n]
	r.buf = r.buf[n:]
	return v
}

// byte reads one byte.
func (r *reader) byte() byte {
	if v := r.read(1); v != nil {
		return v[0]
	}
	return 0
}

// bool decodes the output of writer.bool.
func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail("not a boolean")
	}
	return v == 1
}

// uint reads a number within the given bounds.
func (r *reader) uint(minimum, maximum uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, length := binary.Uvarint(r.buf)
	switch {
	case length <= 0:
		r.fail("bad number")
		return 0
	case length > 1 && r.buf[length-1] == 0:
		r.fail("number with padding")
		return 0
	case v < minimum || v > maximum:
		r.fail(fmt.Sprintf("number %d out of bounds %d to %d", v, minimum, maximum))
		return 0
	}
	r.buf = r.buf[length:]
	return v
}

// text reads a text whose length in bytes is within the given bounds.
func (r *reader) text(minLength, maxLength int) string {
	return string(r.read(int(r.uint(uint64(minLength), uint64(maxLength)))))
}

// readEpoch reads an epoch; zero is permitted.
func (r *reader) readEpoch() shardmap.Epoch { return shardmap.Epoch(r.uint(0, maxUint)) }

// readCause reads a cause and rejects an unknown one.
func (r *reader) readCause() DropCause {
	cause := DropCause(r.byte())
	if r.err == nil && (cause == 0 || int(cause) >= len(causeNames)) {
		r.fail(cause.String())
	}
	return cause
}

// readMilliseconds reads a duration in whole milliseconds, up to the given number of milliseconds.
func (r *reader) readMilliseconds(maximum uint64) time.Duration {
	return time.Duration(r.uint(0, maximum)) * time.Millisecond
}

// readDuration reads a duration above zero and up to maximum.
func (r *reader) readDuration(maximum time.Duration) time.Duration {
	return time.Duration(r.uint(1, uint64(maximum)))
}

// readTiming decodes the output of writer.writeTiming.
func (r *reader) readTiming() Timing {
	timing := Timing{
		Lease: r.readDuration(MaxLease), DeadAfter: r.readDuration(MaxDeadAfter),
		Takeover: Takeover(r.byte()), RebalanceMode: RebalanceMode(r.byte()),
	}
	if r.err == nil && (timing.Takeover == 0 || int(timing.Takeover) >= len(takeoverNames)) {
		r.fail(timing.Takeover.String())
	}
	if r.err == nil && (timing.RebalanceMode == 0 || int(timing.RebalanceMode) >= len(rebalanceModeNames)) {
		r.fail(timing.RebalanceMode.String())
	}
	return timing
}

// readShardMap reads a map with its length; nil after an error.
func (r *reader) readShardMap() *shardmap.Map {
	b := r.read(int(r.uint(0, maxMap)))
	if r.err != nil {
		return nil
	}
	m, err := shardmap.Decode(b)
	if err != nil {
		r.fail(err.Error())
		return nil
	}
	if m.HasInstances() && !r.version.HasInstances() {
		r.fail(errInstances.Error())
		return nil
	}
	return m
}

// finish returns the first error of all reads. Unread bytes are also an error.
func (r *reader) finish() error {
	if r.err == nil && len(r.buf) > 0 {
		r.fail(fmt.Sprintf("%d bytes too many", len(r.buf)))
	}
	return r.err
}
