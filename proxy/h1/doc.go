// Package h1 reads and writes HTTP/1 messages strictly (RFC 9110, RFC 9112). Package proxy uses
// it for the connections to clients, to other nodes and to apps.
//
// Invariant: a message that could be interpreted in two ways is refused, and a truncated message
// never looks complete. Bytes that a client did not frame as a request are never read as one. A
// response never ends early or late without an error. A malformed response that has only one
// interpretation is repaired (repair.go).
//
// # Main types
//
//	Conn       a net.Conn with a read buffer and a write buffer
//	Request    a validated request header and its Body
//	Response   a validated response header and its Body
//	Body       reads one body: by length, chunked or until the peer closes
//	Writer     writes one body; Close finishes it, and Abort leaves it visibly truncated
//	Edit       changes to a header that is forwarded
//	Buffers    a pool of buffers
//
// A header section (Header) is read up to its empty line, validated byte by byte, and then kept
// unchanged with an index of its lines. Names keep their spelling and lines their order, and
// forwarding a header is one pass over its lines.
//
// # One exchange
//
//	err := client.ReadRequest(req)              // io.EOF: the client has closed; *Error: respond with Status, then CloseLinger(PartOfRequest)
//	w := upstream.WriteRequestHeader(req, &edit)  // into the write buffer; nothing is sent yet
//	w.SetPrecondition(lease)                    // called right before the first byte is sent
//	_, rerr, werr := w.Copy(&req.Body)          // rerr: an error of the client, werr: of the upstream
//	err = w.Close(req.Body.Trailers())          // last chunk, trailers, flush
//	err = upstream.ReadResponse(res, req.Method())  // 1xx come one at a time: call again while res.IsInterim()
//	w = client.WriteResponseHeader(res, &edit)
//	_, rerr, werr = w.Copy(&res.Body)           // on rerr: w.Abort, then client.Close
//	err = w.Close(res.Body.Trailers())
//	client.ReleaseEmptyBuffers(); upstream.ReleaseEmptyBuffers() // buffers go back to Buffers
//
// # Goroutines
//
// One goroutine may read a Conn while another one writes it; the two halves share no state. Any
// goroutine may call Close, StopWaiting and StopRead. WatchDisconnect occupies the reading half
// until StopWatch. Request, Response, Body and Writer belong to the goroutine that uses their half.
// The package starts no goroutine except that of WatchDisconnect, and has no global state.
//
// # Decisions where the RFCs leave a choice
//
//   - One empty line (CRLF) before a request line is skipped, as RFC 9112
//     section 2.2 requires; a second one is refused. None is allowed before a status line.
//   - Transfer-Encoding is exactly "chunked", in any case of letters.
//   - Repeated Content-Length is refused in requests, even when the values agree.
//   - A request target holds visible ASCII without '#'. Percent escapes of the
//     path must be complete; those of the query are not checked, because browsers
//     send bare percent signs there.
//   - Absolute-form needs http or https and the authority that Host names.
//   - Chunk extensions are checked, limited and dropped. White space around chunk
//     sizes, or in extensions outside of quoted strings, is refused.
//   - A status line may end after the code. Codes run from 100 to 999.
//   - A malformed response with one interpretation is repaired, see repair.go.
//     The framing fields of 204 and 1xx responses are removed, and the connection
//     ends after them.
//   - Fields that must not be trailers are dropped from trailers.
//   - FIN means disconnected: a client that half-closes while its request runs
//     is treated as disconnected.
package h1
