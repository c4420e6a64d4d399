package proxy

import (
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"shardway/proxy/buffer"
	"shardway/proxy/h1"
)

// requestBody is the body of a request. It buffers the beginning of the body, so that the request
// can be retried. If the body does not fit into the buffer, the sending goroutine sends the rest while
// the response arrives.
//
// The fields belong to the goroutine of the connection. The sending goroutine may set buffered,
// exceedsBuffer and clientErr before it sends on sendDone.
type requestBody struct {
	server *Server
	conn   *h1.Conn
	req    *h1.Request
	onSent func(readErr error) // called when the sending goroutine ends, with the error of the client's connection

	// Reading from the client.

	buffered      []byte             // beginning of the body
	memory        buffer.Reservation // memory of a body that bufferSmallBody is reading
	exceedsBuffer bool               // more of the body was read than is buffered
	unreadable    bool               // the client's body cannot be read any further
	clientErr     error              // error of the client's connection
	reading       atomic.Bool        // the body is being read from the client, after the run has begun
	// lastReadAt is the time of the last read from the client, by the clock of the server. Zero means
	// that the body arrived with the header.
	lastReadAt atomic.Int64

	// Sending to the app or the owner.

	sending  bool          // the sending goroutine has started, and its end was not received from sendDone
	sendDone chan struct{} // receives an element when the sending goroutine ends; nil means that there was none
	// sendingEnd means that the whole body has been read and its end is being sent, while sending is
	// set.
	sendingEnd atomic.Bool
	// destination is where the sending goroutine sends the body: bodyToApp, bodySendFailed or
	// bodyDiscarded.
	destination atomic.Uint32
}

// init connects the body with the connection of the client.
func (body *requestBody) init(s *Server, conn *h1.Conn, req *h1.Request, onSent func(error)) {
	body.server, body.conn, body.req, body.onSent = s, conn, req, onSent
	body.memory.SetCancelReading(conn.StopRead)
}

// reset prepares for the next request, and keeps the buffer.
func (body *requestBody) reset() {
	body.sending, body.unreadable, body.clientErr, body.exceedsBuffer = false, false, nil, false
	if body.lastReadAt.Load() != 0 {
		body.lastReadAt.Store(0)
	}
}

// noteRead records the time of a read from the client.
func (body *requestBody) noteRead() { body.lastReadAt.Store(int64(body.server.clock.Now())) }

// beginRead records that the body is being read from the client.
func (body *requestBody) beginRead() { body.reading.Store(true) }

// endRead records that the body is no longer being read.
func (body *requestBody) endRead() {
	body.noteRead()
	body.reading.Store(false)
}

// fitsBuffer reports whether the unread part of the body has a known length that fits into the buffer.
// It returns false if nothing is unread.
func (body *requestBody) fitsBuffer() bool {
	remaining := body.req.Body.Remaining()
	return remaining > 0 && remaining <= int64(body.server.options.BodyBuffer) && !body.exceedsBuffer
}

// readAvailable reads the available part of a body that fits into the buffer, without blocking. A
// larger body stays in the connection until it is sent.
func (body *requestBody) readAvailable() error {
	clientBody := &body.req.Body
	remaining := clientBody.Remaining()
	if !body.fitsBuffer() {
		return nil
	}
	n := min(int(remaining), len(body.conn.Buffered()))
	if n == 0 {
		return nil
	}
	body.growBuffer(len(body.buffered) + n)
	bufferedLen := len(body.buffered)
	read, _, err := clientBody.Fill(body.buffered[bufferedLen : bufferedLen+n])
	body.buffered = body.buffered[:bufferedLen+read]
	return err
}

// bufferSmallBody reads the whole body if it fits into the buffer, before the request occupies a
// connection to the app. A client that sends slowly then delays only itself. bufferSmallBody does not
// wait for a body that the client or the other node sends on demand. limit is the memory limit of all
// bodies that are being read, in bytes.
func (body *requestBody) bufferSmallBody(sentOnDemand bool, limit int64) error {
	mustRequest := sentOnDemand || body.req.ExpectsContinue()
	if !body.fitsBuffer() || mustRequest {
		return nil
	}
	if err := body.readAvailable(); err != nil || body.req.Body.Done() {
		return err
	}
	err := body.readRest(limit)
	body.noteRead()
	if body.server.bodyMemory.Release(&body.memory) {
		return errBodyMemoryLimit
	}
	return err
}

// readRest reads the rest of a body into buffered. The memory counts towards limit. It grows with
// the received data, so a client that declares 64 KiB and sends one byte does not occupy 64 KiB.
func (body *requestBody) readRest(limit int64) error {
	clientBody := &body.req.Body
	for counted := 0; !clientBody.Done(); {
		if len(body.buffered) == cap(body.buffered) {
			body.growBuffer(len(body.buffered) + 1)
		}
		counted = body.countMemory(counted, 0, limit)
		bufferedLen := len(body.buffered)
		end := min(cap(body.buffered), bufferedLen+int(clientBody.Remaining()))
		n, err := clientBody.Read(body.buffered[bufferedLen:end])
		body.buffered = body.buffered[:bufferedLen+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// errBodyMemoryLimit reports that reading a body was cancelled because all incomplete bodies together
// exceed their memory limit.
var errBodyMemoryLimit = errors.New("proxy: body given up")

// countMemory counts the memory of a request whose body is incomplete, plus extraBytes that are
// stored elsewhere. counted is the result of the previous call.
func (body *requestBody) countMemory(counted, extraBytes int, limit int64) int {
	size := body.conn.BufferSize() + body.req.MemorySize() + cap(body.buffered) + extraBytes
	if size > counted {
		body.server.metrics.ShedBodies.Add(body.server.bodyMemory.Add(&body.memory, size-counted, limit))
	}
	return max(size, counted)
}

// growBuffer grows the capacity of buffered to at least n bytes.
func (body *requestBody) growBuffer(n int) {
	if cap(body.buffered) >= n {
		return
	}
	old := body.buffered
	body.buffered = append(body.server.bodies.Get(n), old...)
	if cap(old) > 0 {
		body.server.bodies.Put(old)
	}
}

// releaseBuffer empties buffered, and returns a large buffer to its pool.
func (body *requestBody) releaseBuffer() {
	if cap(body.buffered) > buffer.SmallSize {
		body.server.bodies.Put(body.buffered)
		body.buffered = nil
	}
	body.buffered = body.buffered[:0]
}

// isFullyBuffered reports whether the whole body is buffered. It is true if there is no body.
func (body *requestBody) isFullyBuffered() bool { return body.req.Body.Done() && !body.exceedsBuffer }

// isReplayable reports whether the body can be sent again from its start.
func (body *requestBody) isReplayable() bool { return !body.exceedsBuffer && !body.unreadable }

// startSending sends the body in the sending goroutine. It begins with the first bufferedBytes bytes
// of buffered. The goroutine ends after the end of the body, after an error, or when stopSending is
// called.
func (body *requestBody) startSending(writer *h1.Writer, bufferedBytes int) {
	if body.sendDone == nil {
		body.sendDone = make(chan struct{}, 1)
	}
	body.sending = true
	body.beginRead()
	body.sendingEnd.Store(false)
	body.destination.Store(bodyToApp)
	go func() {
		readErr := body.server.sendRecovering(func() error {
			err := body.sendRest(writer, bufferedBytes)
			appStoppedReading := err == nil && !body.req.Body.Done()
			if appStoppedReading && !body.destination.CompareAndSwap(bodyToApp, bodySendFailed) { // the response has begun
				body.discardRest()
			}
			return err
		})
		body.endRead()
		body.onSent(readErr)
		body.clientErr = readErr
		body.sendDone <- struct{}{}
	}()
}

// sendRest sends the body, and buffers it up to BodyBuffer. It returns the error of the client. It
// ignores an error of the upstream connection, because reading the response will return one too.
func (body *requestBody) sendRest(writer *h1.Writer, bufferedBytes int) error {
	clientBody := &body.req.Body
	if _, err := writer.Write(body.buffered[:bufferedBytes]); err != nil {
		return nil //nolint:nilerr // an upstream error, see sendRest
	}
	if clientBody.Remaining() > int64(body.server.options.BodyBuffer-len(body.buffered)) {
		body.exceedsBuffer = true
	}
	for !body.exceedsBuffer && !clientBody.Done() {
		if len(body.buffered) == body.server.options.BodyBuffer {
			body.exceedsBuffer = true
			break
		}
		if readErr, writeErr := body.sendBuffered(writer); readErr != nil || writeErr != nil {
			return readErr
		}
	}
	if _, readErr, writeErr := writer.Copy(clientBody); readErr != nil || writeErr != nil {
		return readErr
	}
	// Set sendingEnd before the end of the body is sent, because the app may respond before Close
	// returns.
	body.sendingEnd.Store(true)
	_ = writer.Close(clientBody.Trailers()) // an upstream error, see sendRest
	return nil
}

// sendBuffered reads the next part of the body into the buffer, and sends it. If the client has sent
// more data already, sendBuffered leaves the part in writer, to be sent together with that data.
// readErr is an error of the client, and writeErr one of the upstream connection.
func (body *requestBody) sendBuffered(writer *h1.Writer) (readErr, writeErr error) {
	clientBody := &body.req.Body
	bufferedLen := len(body.buffered)
	body.growBuffer(bufferedLen + 1)
	n, err := clientBody.Read(body.buffered[bufferedLen:cap(body.buffered)])
	body.buffered = body.buffered[:bufferedLen+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return err, nil
	}
	if _, err := writer.Write(body.buffered[bufferedLen:]); err != nil {
		return nil, err
	}
	moreIsAvailable := clientBody.Kind() == h1.Length && len(body.conn.Buffered()) > 0
	if clientBody.Done() || moreIsAvailable {
		return nil, nil
	}
	return nil, writer.Flush()
}

// States of requestBody.destination.
const (
	bodyToApp      uint32 = iota
	bodySendFailed        // the connection to the app accepts no more data, and the goroutine has ended
	bodyDiscarded         // the response has begun; body data that the app does not accept is discarded
)

// handleEarlyResponse handles a final response that arrives before the whole request body has been
// sent. Such a response ends the connection. A client that sends its whole body before it reads must
// be able to finish. Therefore the part of the body that the app does not accept is read and
// discarded. isRefused means that the app has refused the request; then no more of the body is sent
// to the app. Only the goroutine of the request calls handleEarlyResponse, while sending is set.
func (body *requestBody) handleEarlyResponse(attempt *attempt, isRefused bool) {
	senderHasEnded := body.destination.Swap(bodyDiscarded) == bodySendFailed
	if senderHasEnded {
		<-body.sendDone
		body.startDiscarding(attempt)
		return
	}
	if isRefused {
		attempt.conn.StopWrite()
	}
}

// startDiscarding reads and discards the rest of the body in a goroutine that takes the place of the
// sending goroutine.
func (body *requestBody) startDiscarding(attempt *attempt) {
	attempt.disconnect.disarm() // the goroutine reads from the client again
	body.reading.Store(true)
	go func() {
		_ = body.server.sendRecovering(func() error { body.discardRest(); return nil }) // sendRecovering has logged a panic
		body.reading.Store(false)
		body.onSent(nil)
		body.sendDone <- struct{}{}
	}()
}

// discardRest reads and discards the rest of the body, until its end, an error, or the call of
// stopSending. Afterwards the request cannot be retried. An error of the client is ignored: the response continues, and
// writing it will fail if the client has disconnected.
func (body *requestBody) discardRest() {
	body.exceedsBuffer = true
	clientBody := &body.req.Body
	_ = clientBody.SetMaxBytes(0)
	_ = clientBody.Drain(math.MaxInt64)
}

// stopSending ends the sending goroutine and waits for it. If the goroutine had to be interrupted, no
// further data can be read from the client's connection.
func (body *requestBody) stopSending() {
	if !body.sending {
		return
	}
	select {
	case <-body.sendDone:
	default:
		body.unreadable = true
		body.conn.StopRead()
		<-body.sendDone
	}
	body.finishSending()
}

// lastBytesWait is how long awaitSent waits for the last bytes of a body to be sent, after the response has
// arrived. That suffices for a peer that reads from its socket.
const lastBytesWait = 50 * time.Millisecond

// awaitSent reports whether the body was sent completely. If the end of the body is being sent, it
// waits up to lastBytesWait: an app that has read the whole body may respond before the sending
// goroutine has returned.
func (body *requestBody) awaitSent() bool {
	if !body.sending {
		return true
	}
	if !body.sendingEnd.Load() {
		return false
	}
	timer := time.NewTimer(lastBytesWait)
	defer timer.Stop()
	select {
	case <-body.sendDone:
		body.finishSending()
		return true
	case <-timer.C:
		return false
	}
}

// finishSending takes over the result of the sending goroutine, which has ended.
func (body *requestBody) finishSending() {
	body.sending = false
	if errors.Is(body.clientErr, h1.ErrStopped) {
		body.clientErr = nil // stopSending has interrupted the read
	}
	if body.clientErr != nil {
		body.unreadable = true
	}
}
