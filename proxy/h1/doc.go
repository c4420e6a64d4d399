// Package h1 frames HTTP/1 messages strictly: one code for the client, the
// peer and the upstream side of the proxy (RFC 9110, RFC 9112).
//
// The rule that must hold: whatever could be read in two ways is refused, and
// a message that was cut never looks whole. A response that is malformed and can
// be read in one way only is repaired. Bytes that a client did not frame
// as a request are never read as one, an answer never ends early or late
// without an error.
//
// # Parts
//
//	Conn       a net.Conn with a read buffer and a write buffer
//	Request    a judged request head and its Body
//	Response   a judged response head and its Body
//	Body       reads one body: by length, chunked or until the peer closes
//	Writer     writes one body, finished by Close or left visibly cut by Abort
//	Edit       what changes in a head on its way through
//	Buffers    where buffers come from and go back to
//
// A head is read up to its empty line, judged byte by byte, then kept as it
// came (Head) with an index of its lines: names keep their spelling, lines
// their order, and a forwarded head is one pass over those lines.
//
// # One exchange
//
//	err := client.ReadRequest(req)              // io.EOF: the client is done; *Error: answer Status, then CloseLinger(PartOfRequest)
//	w := upstream.WriteRequestHead(req, &edit)  // into the write buffer; nothing is sent yet
//	w.Gate(lease)                               // asked right before the first byte is sent
//	_, rerr, werr := w.Copy(&req.Body)          // rerr: the client's fault, werr: upstream's
//	err = w.Close(req.Body.Trailers())          // last chunk, trailers, flush
//	err = upstream.ReadResponse(res, req.Method())  // 1xx come one at a time: call again while res.Interim()
//	w = client.WriteResponseHead(res, &edit)
//	_, rerr, werr = w.Copy(&res.Body)           // on rerr: w.Abort, then client.Close
//	err = w.Close(res.Body.Trailers())
//	client.Idle(); upstream.Idle()              // buffers go back to Buffers
//
// # Goroutines
//
// One goroutine may read a Conn while another writes it; the two halves share
// no state. Close, StopIdle and StopRead may come from anywhere. WatchGone
// occupies the reading half until StopWatch. Request, Response, Body and
// Writer belong to whoever drives their half. The package starts no goroutine
// but that of WatchGone, and keeps no state of its own.
//
// # What is decided where the RFCs leave room
//
//   - One empty line (CRLF) before a request line is skipped, as RFC 9112
//     section 2.2 asks; a second one is refused. None before a status line.
//   - Transfer-Encoding is exactly "chunked", in any case of letters.
//   - Repeated Content-Length is refused in requests, even when the values agree.
//   - A request target holds visible ASCII without '#'. Percent escapes of the
//     path must be whole; those of the query are left alone, as browsers send
//     bare percent signs there.
//   - Absolute-form needs http or https and the authority that Host names.
//   - Chunk extensions are checked, bounded and dropped; no white space around
//     chunk sizes or in extensions outside of quoted strings.
//   - A status line may end after the code. Codes run from 100 to 999.
//   - What is malformed in a response and has one reading only is repaired, see
//     repair.go; 204 and 1xx lose the fields that would frame a body, and the
//     connection ends after them.
//   - Trailer fields that no trailer may be are dropped.
//   - FIN means gone: a client that half-closes while its request runs is
//     taken to have left.
package h1
