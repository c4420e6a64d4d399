package secret

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// reading is where in a tls.Conn the memory is that it reads with. Package tls keeps as
// much of that as the largest record and the largest message of a handshake needed, for as
// long as the connection lives, and has no word for giving it back: on a stream on which
// nothing is said, 5 KiB. Where a field has gone, or is of another type, none is known.
type reading struct {
	raw, record, hand uintptr
	known             bool
}

// readingOf looks for the fields by name and type.
func readingOf(conn reflect.Type) (r reading) {
	raw, ok1 := conn.FieldByName("rawInput") // what the socket gave, from the begin of a record on
	record, ok2 := conn.FieldByName("input") // what is left of a record's content; it lies in rawInput
	hand, ok3 := conn.FieldByName("hand")    // messages of a handshake
	buffer := reflect.TypeFor[bytes.Buffer]()
	r.known = ok1 && ok2 && ok3 && raw.Type == buffer && record.Type == reflect.TypeFor[bytes.Reader]() && hand.Type == buffer
	if r.known {
		r.raw, r.record, r.hand = raw.Offset, record.Offset, hand.Offset
	}
	return r
}

// within is where it is in the tls.Conn of this Go version.
var within = readingOf(reflect.TypeFor[tls.Conn]())

// Drained reports whether Read has handed out all that was read from the socket, so that it
// is the socket that tells when to call it next. Only the goroutine that reads calls it,
// after the handshake.
func (c *Conn) Drained() bool {
	raw, record, hand := within.of(c.Conn)
	return raw != nil && raw.Len() == 0 && record.Len() == 0 && hand.Len() == 0
}

// Rest gives the memory back that Read has used, and which makes itself some as it needs
// it. It follows Drained.
func (c *Conn) Rest() {
	raw, record, hand := within.of(c.Conn)
	*raw, *record, *hand = bytes.Buffer{}, bytes.Reader{}, bytes.Buffer{}
}

// of returns the fields; nil: they are not known.
func (r reading) of(c *tls.Conn) (raw *bytes.Buffer, record *bytes.Reader, hand *bytes.Buffer) {
	if !r.known {
		return nil, nil, nil
	}
	at := unsafe.Pointer(c) //nolint:gosec // see reading
	return (*bytes.Buffer)(unsafe.Add(at, r.raw)), (*bytes.Reader)(unsafe.Add(at, r.record)), (*bytes.Buffer)(unsafe.Add(at, r.hand))
}
