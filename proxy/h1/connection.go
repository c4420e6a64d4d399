package h1

import "iter"

// maxNamed bounds the fields that Connection may name: each is looked for
// among all lines.
const maxNamed = 32

// parseConnection reads the options of all Connection lines and marks the
// lines they name: those end at this hop.
func (h *Header) parseConnection() *Error {
	named := 0
	for e := range h.connectionOptions() {
		switch {
		case len(e) == 0:
			continue
		case !isToken(e) && h.lenient:
			// It names no field. In case it was meant to be "close", the connection ends.
			h.opts |= optClose
			h.repairs |= repairedOption
			continue
		case !isToken(e):
			return errConnection
		case h.addOption(e):
			continue
		}
		if named++; named > maxNamed {
			return errConnection
		}
		h.markNamed(e)
	}
	return nil
}

// connectionOptions returns the elements of all Connection lines, empty ones too.
func (h *Header) connectionOptions() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range h.lines {
			l := &h.lines[i]
			if l.field != FieldConnection {
				continue
			}
			list, more := h.raw[l.vs:l.ve], true
			for more {
				var e []byte
				if e, list, more = cutElement(list); !yield(e) {
					return
				}
			}
		}
	}
}

// addOption takes the options that have a meaning of their own. The fields
// they might name are dropped or kept for what they are.
func (h *Header) addOption(e []byte) bool {
	switch {
	case equalFold(e, "close"):
		h.opts |= optClose
	case equalFold(e, "keep-alive"):
		h.opts |= optKeepAlive
	case equalFold(e, "upgrade"):
		h.opts |= optUpgrade
	default:
		return false
	}
	return true
}

// kept holds the fields that Connection cannot name.
const kept = Set(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldConnection)

// markNamed marks the lines called name. Those without which the message would
// mean something else on the next hop stay: naming them is an error of the
// sender (RFC 9110 section 7.6.1), or an attempt.
func (h *Header) markNamed(name []byte) {
	for i := range h.lines {
		l := &h.lines[i]
		if kept.Has(l.field) {
			continue
		}
		if int(l.colon-l.start) == len(name) && foldEqual(h.raw[l.start:l.colon], name) {
			l.named = true
		}
	}
}

// connectionNames reports whether Connection names a field, for trailers.
func (h *Header) connectionNames(name []byte) bool {
	if !h.seen.Has(FieldConnection) {
		return false
	}
	for e := range h.connectionOptions() {
		if len(e) == len(name) && foldEqual(e, name) {
			return true
		}
	}
	return false
}
