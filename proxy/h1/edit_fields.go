package h1

import "bytes"

// EditFields removes and adds header lines of a response that has been read, as if the app had sent it in this
// form. removes reports whether to remove the lines with a given name; nil removes none. added contains complete
// lines. Neither may affect fields that frame the message or belong to the connection. The results of earlier calls
// of the methods of r stay valid.
func (r *Response) EditFields(removes func(name []byte) bool, added []byte) {
	h := &r.Header
	raw := make([]byte, 0, len(h.raw)+len(added))
	raw = append(raw, h.raw[:h.startLineLen]...)
	kept := h.lines[:0]
	known := FieldSet(0)
	for _, fieldLine := range h.lines {
		if removes != nil && removes(h.nameOf(&fieldLine)) {
			continue
		}
		shift := uint32(len(raw)) - fieldLine.start
		raw = append(raw, h.raw[fieldLine.start:fieldLine.next]...)
		fieldLine.start += shift
		fieldLine.colon += shift
		fieldLine.valueStart += shift
		fieldLine.valueEnd += shift
		fieldLine.next += shift
		kept = append(kept, fieldLine)
		known |= 1 << fieldLine.field
	}
	h.lines, h.knownFields, h.raw = kept, known, raw
	for line := range bytes.SplitAfterSeq(added, []byte("\r\n")) {
		if len(line) > 0 {
			h.appendLine(line)
		}
	}
	h.raw = append(h.raw, "\r\n"...)
	h.parsedLen = len(h.raw)
}

// appendLine adds a complete line at the end of the header. An invalid line is not added.
func (h *Header) appendLine(line []byte) {
	before := len(h.lines)
	h.parsedLen = len(h.raw)
	end := uint32(h.parsedLen + len(line))
	if err := h.addLine(line[:len(line)-len("\r\n")], end); err != nil {
		h.lines = h.lines[:before]
		return
	}
	h.raw = append(h.raw, line...)
}
