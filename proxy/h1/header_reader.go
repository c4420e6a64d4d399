package h1

import (
	"errors"
	"io"
	"time"

	"shardway/internal/fieldname"
)

// headerReader parses the headers that arrive in the read buffer of a Conn, and limits their size.
type headerReader struct {
	in *connReader

	// Configuration, from Options and Timeouts.
	maxBytes       int             // Options.MaxHeaderBytes
	maxTargetBytes int             // Options.MaxTargetBytes
	maxLines       int             // Options.MaxHeaderLines
	timeout        time.Duration   // Timeouts.Header
	onMemoryChange func(delta int) // Options.OnHeaderMemory; nil if not set

	reportedBytes int // bytes of the current header that have been reported to onMemoryChange
}

// readRequest parses the header of req while it arrives, and returns its length. At least one byte
// of it must be buffered.
func (h *headerReader) readRequest(req *Request) (int, error) {
	n, err := h.read(&req.Header, req.parseRequestLine, true)
	if h.reportedBytes != 0 {
		h.reportEnd()
	}
	return n, err
}

// read parses a header while it arrives, and returns its length. At least one byte of it must be
// buffered.
func (h *headerReader) read(header *Header, parseStartLine func([]byte) *Error, isRequest bool) (int, error) {
	skippedEmptyLine, timeoutSet := false, false
	for {
		data := h.in.unread()
		startsWithEmptyLine := isRequest && header.startLineLen == 0 && len(data) > 0 && data[0] == '\r'
		switch {
		case startsWithEmptyLine && skippedEmptyLine:
			return 0, errSecondEmptyLine
		case startsWithEmptyLine:
			complete, err := h.in.skipEmptyLine()
			if err != nil {
				return 0, err
			}
			if complete {
				skippedEmptyLine = true
				continue
			}
		case len(data) > 0:
			headerLen, err := h.parse(header, data, parseStartLine, isRequest)
			if headerLen > 0 || err != nil {
				return headerLen, err
			}
		}
		if !timeoutSet {
			timeoutSet = true
			if err := h.in.setReadTimeout(h.timeout); err != nil {
				return 0, err
			}
		}
		if err := h.readMore(isRequest); err != nil {
			return 0, err
		}
	}
}

// skipEmptyLine discards an empty line before a request line (RFC 9112 section 2.2). The first
// buffered byte must be its CR. complete is false if the LF has not arrived.
func (in *connReader) skipEmptyLine() (complete bool, err error) {
	data := in.unread()
	if len(data) == 1 {
		return false, nil
	}
	if data[1] != '\n' {
		return false, errSecondEmptyLine
	}
	in.discard(2)
	return true, nil
}

// readMore waits for more bytes of a header. io.EOF means that no byte of it has arrived.
func (h *headerReader) readMore(isRequest bool) error {
	if isRequest && h.onMemoryChange != nil {
		h.reportGrowth()
	}
	hasBegun := !isRequest || h.in.buffered() > 0
	err := h.in.readMore()
	if hasBegun && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// reportGrowth reports the growth of the memory of the header that is being read.
func (h *headerReader) reportGrowth() {
	growth := len(h.in.buf) - h.reportedBytes
	if growth > 0 {
		h.reportedBytes += growth
		h.onMemoryChange(growth)
	}
}

// reportEnd reports that the header has been read. It clears the deadline, because StopHeader may
// have set one in the past.
func (h *headerReader) reportEnd() {
	n := h.reportedBytes
	h.reportedBytes = 0
	h.onMemoryChange(-n)
	_ = h.in.setReadDeadline(time.Time{}) // the next read sees the error
}

// parse parses data, the part of a header that has arrived. It returns the length of a complete
// header, an error if it is invalid or too long, or zero if it is incomplete.
func (h *headerReader) parse(header *Header, data []byte, parseStartLine func([]byte) *Error, isRequest bool) (int, error) {
	if isRequest && !fieldname.IsTokenByte(data[0]) {
		return 0, errMethod // do not wait for the rest, for example of a TLS handshake on a plain port
	}
	headerLen, err := header.parseLines(data, h.maxLines, parseStartLine)
	if err != nil {
		return 0, err
	}
	startLineLen := header.startLineLen
	if startLineLen == 0 {
		startLineLen = len(data) // the start line is incomplete, and at least this long
	}
	if isRequest && startLineLen > h.maxTargetBytes {
		return 0, errTargetTooLong
	}
	isIncomplete := headerLen == 0
	if headerLen > h.maxBytes || isIncomplete && len(data) >= h.maxBytes {
		return 0, errHeaderTooLong
	}
	return headerLen, nil
}

// tryRequest parses and validates the header of req without reading from the socket, and removes it
// from the buffer if it is valid. It returns ParseIncomplete if the buffered bytes are not a
// complete header.
func (h *headerReader) tryRequest(req *Request) ParseResult {
	data := h.in.unread()
	if len(data) == 0 {
		return ParseIncomplete
	}
	if data[0] == '\r' {
		return ParseMustBlock // read limits the number of leading empty lines
	}
	headerLen, err := h.parse(&req.Header, data, req.parseRequestLine, true)
	if err != nil {
		return ParseMustBlock
	}
	if headerLen == 0 {
		return ParseIncomplete
	}
	req.raw = append(req.raw, data[:headerLen]...)
	if req.validate() != nil {
		return ParseMustBlock
	}
	h.in.discard(headerLen)
	req.start(h.in)
	return ParseComplete
}

// SetLimits replaces Options.MaxHeaderBytes, MaxTargetBytes and MaxHeaderLines, beginning with the
// next header. It must not be called during a read.
func (c *Conn) SetLimits(maxHeaderBytes, maxTargetBytes, maxHeaderLines int) {
	options := Options{MaxHeaderBytes: maxHeaderBytes, MaxTargetBytes: maxTargetBytes, MaxHeaderLines: maxHeaderLines}.withDefaults()
	c.headers.maxBytes, c.headers.maxTargetBytes, c.headers.maxLines = options.MaxHeaderBytes, options.MaxTargetBytes, options.MaxHeaderLines
	c.in.maxSize = max(c.headers.maxBytes, c.in.initialSize)
}

// StopHeader stops reading a header that was reported to Options.OnHeaderMemory, as if
// Timeouts.Header had passed. Any goroutine may call it until the end of the header is reported.
func (c *Conn) StopHeader() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = in.nc.SetReadDeadline(past()) // a closed connection reads nothing
}
