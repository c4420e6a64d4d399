package h1

import "iter"

// maxConnectionFields is the maximum number of fields that Connection may name. The limit bounds
// the work, because markNotForwarded compares each name with all lines.
const maxConnectionFields = 32

// parseConnection parses the options of all Connection lines. It marks the lines of the fields that
// they name as hop-by-hop, so that they are not forwarded.
func (h *Header) parseConnection() *Error {
	named := 0
	for e := range h.connectionOptions() {
		switch {
		case len(e) == 0:
			continue
		case !isToken(e) && h.lenient:
			// The element is no token, so it names no field. It may be a mistyped "close";
			// therefore the connection ends after this message.
			h.connOptions |= optClose
			h.repairs |= ignoredConnectionOption
			continue
		case !isToken(e):
			return errInvalidConnection
		case h.addOption(e):
			continue
		}
		if named++; named > maxConnectionFields {
			return errInvalidConnection
		}
		h.markNotForwarded(e)
	}
	return nil
}

// connectionOptions returns the elements of all Connection lines, including empty elements.
func (h *Header) connectionOptions() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range h.lines {
			l := &h.lines[i]
			if l.field != FieldConnection {
				continue
			}
			list, more := h.raw[l.valueStart:l.valueEnd], true
			for more {
				var e []byte
				if e, list, more = cutListElement(list); !yield(e) {
					return
				}
			}
		}
	}
}

// addOption records e if it is an option with a meaning of its own, and reports whether it is. Such
// an option does not name a field to remove: Keep-Alive and Upgrade are handled separately when the
// header is forwarded.
func (h *Header) addOption(e []byte) bool {
	switch {
	case equalFoldLower(e, "close"):
		h.connOptions |= optClose
	case equalFoldLower(e, "keep-alive"):
		h.connOptions |= optKeepAlive
	case equalFoldLower(e, "upgrade"):
		h.connOptions |= optUpgrade
	default:
		return false
	}
	return true
}

// protectedFields contains the fields that Connection must not remove.
const protectedFields = FieldSet(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldConnection)

// markNotForwarded marks the lines of the field name, so that they are not forwarded. It does not
// mark the fields in protectedFields: without them, the message would have another meaning at the
// next hop. A sender that names one of them violates RFC 9110 section 7.6.1, or attempts request
// smuggling.
func (h *Header) markNotForwarded(name []byte) {
	for i := range h.lines {
		l := &h.lines[i]
		if protectedFields.Has(l.field) {
			continue
		}
		if int(l.colon-l.start) == len(name) && equalFoldSameLen(h.raw[l.start:l.colon], name) {
			l.notForwarded = true
		}
	}
}

// isNamedByConnection reports whether Connection names the field name. It is used for trailers.
func (h *Header) isNamedByConnection(name []byte) bool {
	if !h.knownFields.Has(FieldConnection) {
		return false
	}
	for e := range h.connectionOptions() {
		if len(e) == len(name) && equalFoldSameLen(e, name) {
			return true
		}
	}
	return false
}
