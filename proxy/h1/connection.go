package h1

import (
	"iter"

	"shardway/internal/fieldname"
)

// maxConnectionFields is the maximum number of fields that Connection may name. The limit bounds
// the work, because markNotForwarded compares each name with all lines.
const maxConnectionFields = 32

// parseConnection parses the options of all Connection lines. It marks the lines of the fields that
// they name as hop-by-hop, so that they are not forwarded.
func (h *Header) parseConnection() *Error {
	namedFields := 0
	for option := range h.connectionOptions() {
		switch {
		case len(option) == 0:
		case !fieldname.IsToken(option):
			if !h.lenient {
				return errInvalidConnection
			}
			// The element is not a token, so it names no field. It may be a mistyped "close", so
			// the connection ends after this message.
			h.connOptions |= optClose
			h.repairs |= ignoredConnectionOption
		case h.addOption(option):
		default: // the option is the name of a field
			namedFields++
			if namedFields > maxConnectionFields {
				return errInvalidConnection
			}
			h.markNotForwarded(option)
		}
	}
	return nil
}

// connectionOptions returns the elements of all Connection lines, including empty elements.
func (h *Header) connectionOptions() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range h.lines {
			fieldLine := &h.lines[i]
			if fieldLine.field != FieldConnection {
				continue
			}
			list, more := h.valueOf(fieldLine), true
			for more {
				var option []byte
				option, list, more = cutListElement(list)
				if !yield(option) {
					return
				}
			}
		}
	}
}

// addOption records the option close, keep-alive or upgrade, and returns false for any other
// element. Such an option does not name a field to remove: Keep-Alive and Upgrade are handled
// separately when the header is forwarded.
func (h *Header) addOption(option []byte) bool {
	switch {
	case equalFoldLower(option, "close"):
		h.connOptions |= optClose
	case equalFoldLower(option, "keep-alive"):
		h.connOptions |= optKeepAlive
	case equalFoldLower(option, "upgrade"):
		h.connOptions |= optUpgrade
	default:
		return false
	}
	return true
}

// protectedFields contains the fields that Connection must not remove.
const protectedFields = FieldSet(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldConnection)

// markNotForwarded marks the lines of the field name, so that they are not forwarded. It does not
// mark the fields in protectedFields: without them, the message would mean something else at the
// next hop. A sender that names one of them violates RFC 9110 section 7.6.1, or attempts request
// smuggling.
func (h *Header) markNotForwarded(name []byte) {
	for i := range h.lines {
		fieldLine := &h.lines[i]
		if protectedFields.Has(fieldLine.field) {
			continue
		}
		lineName := h.nameOf(fieldLine)
		if len(lineName) == len(name) && equalFoldSameLen(lineName, name) {
			fieldLine.notForwarded = true
		}
	}
}

// isNamedByConnection reports whether Connection names the field name. It is used for trailers.
func (h *Header) isNamedByConnection(name []byte) bool {
	if !h.knownFields.Has(FieldConnection) {
		return false
	}
	for option := range h.connectionOptions() {
		if len(option) == len(name) && equalFoldSameLen(option, name) {
			return true
		}
	}
	return false
}
