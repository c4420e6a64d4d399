package reqbody

import (
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/buffer"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
)

// Shared is the state shared by all bodies of a server.
type Shared struct {
	BufferSize int                           // maximum size in bytes of the buffered part of a body
	Buffers    buffer.Pool                   // memory for the buffered parts
	Memory     buffer.Limit                  // memory of bodies that are read before their requests continue
	OnShed     func(bodies uint64)           // called when reading of bodies was cancelled because of Memory
	Clock      *coarsetime.Clock             // clock of LastReadAt
	Recover    func(send func() error) error // calls send, and converts a panic into an error
}

// Body is the body of a request. It buffers the beginning of the body, so that the request can be
// retried. If the body does not fit into the buffer, the sending goroutine sends the rest while the
// response arrives.
//
// The fields belong to the goroutine of the connection. The sending goroutine may set Buffered,
// ExceedsBuffer and ClientErr before it sends on sendDone.
type Body struct {
	shared *Shared
	client inbound.Request
	req    *h1.Request
	onSent func(readErr error) // called when the sending goroutine ends, with the error of the client's connection

	// Reading from the client.

	Buffered      []byte             // beginning of the body
	memory        buffer.Reservation // memory of a body that BufferSmallBody is reading
	ExceedsBuffer bool               // more of the body has been read than is buffered
	Unreadable    bool               // the client's body cannot be read any further
	ClientErr     error              // error of the client's connection
	reading       atomic.Bool        // the body is being read from the client, after the run has begun
	// lastReadAt is the time of the last read from the client, by the clock of the server. Zero means
	// that the body arrived with the header.
	lastReadAt atomic.Int64

	bufferingMu sync.Mutex // protects the following fields
	isBuffering bool       // BufferSmallBody or BufferForKey waits for the client
	timedOut    bool       // CancelBuffering has cancelled reading

	// Sending to the app or the owner.

	sending  bool          // the sending goroutine has started, and has not been reaped from sendDone
	sendDone chan struct{} // receives an element when the sending goroutine ends; nil until one has been started
	// sendingEnd is set once the whole body has been read and its end is being sent. It is valid while sending is
	// set.
	sendingEnd atomic.Bool
	// destination is what the sending goroutine does with the body: bodyToApp, bodySendFailed or bodyDiscarded.
	destination atomic.Uint32
}

// Init connects the body with the front that has accepted its request. onSent is called in the sending goroutine
// when it ends, with the error of the connection.
func (body *Body) Init(shared *Shared, client inbound.Request, req *h1.Request, onSent func(readErr error)) {
	body.shared, body.client, body.req, body.onSent = shared, client, req, onSent
	body.memory.SetCancelReading(client.StopRead)
}

// Reset prepares for the next request, and keeps the buffer.
func (body *Body) Reset() {
	body.sending, body.Unreadable, body.ClientErr, body.ExceedsBuffer = false, false, nil, false
	if body.lastReadAt.Load() != 0 {
		body.lastReadAt.Store(0)
	}
}

// noteRead records the time of a read from the client.
func (body *Body) noteRead() { body.lastReadAt.Store(int64(body.shared.Clock.Now())) }

// IsSending reports whether the sending goroutine is running, or has ended without having been reaped.
func (body *Body) IsSending() bool { return body.sending }

// IsSendingEnd reports whether the whole body has been read and its end is being sent.
func (body *Body) IsSendingEnd() bool { return body.sendingEnd.Load() }

// HasNeverBeenSent reports whether no sending goroutine was started for any request of the
// connection.
func (body *Body) HasNeverBeenSent() bool { return body.sendDone == nil }

// IsBeingRead reports whether the body is being read from the client after the run has begun.
func (body *Body) IsBeingRead() bool { return body.reading.Load() }

// LastReadAt returns the time of the last read from the client. Zero means that the body arrived
// with the header.
func (body *Body) LastReadAt() time.Duration { return time.Duration(body.lastReadAt.Load()) }

// ReleaseMemory releases the memory counted by CountMemory. It reports whether reading was cancelled because of the
// memory limit.
func (body *Body) ReleaseMemory() (cancelled bool) { return body.shared.Memory.Release(&body.memory) }

// BeginRead records that the body is being read from the client.
func (body *Body) BeginRead() { body.reading.Store(true) }

// EndRead records that the body is no longer being read.
func (body *Body) EndRead() {
	body.noteRead()
	body.reading.Store(false)
}

// fitsBuffer reports whether the unread part of the body has a known length that fits into the buffer.
// It returns false if nothing is unread.
func (body *Body) fitsBuffer() bool {
	remaining := body.req.Body.Remaining()
	return remaining > 0 && remaining <= int64(body.shared.BufferSize) && !body.ExceedsBuffer
}

// ReadAvailable reads the available part of a body that fits into the buffer, without blocking. A
// larger body stays in the connection until it is sent.
func (body *Body) ReadAvailable() error {
	clientBody := &body.req.Body
	remaining := clientBody.Remaining()
	if !body.fitsBuffer() {
		return nil
	}
	n := min(int(remaining), clientBody.Available())
	if n == 0 {
		return nil
	}
	body.growBuffer(len(body.Buffered) + n)
	bufferedLen := len(body.Buffered)
	read, _, err := clientBody.Fill(body.Buffered[bufferedLen : bufferedLen+n])
	body.Buffered = body.Buffered[:bufferedLen+read]
	return err
}

// BufferSmallBody reads the whole body if it fits into the buffer, before the request occupies a connection to the
// app. A slow client then delays only itself. BufferSmallBody does not wait for a body that the client or the other
// node sends on demand. limit is the memory limit of all bodies that are being read, in bytes.
func (body *Body) BufferSmallBody(sentOnDemand bool, limit int64) error {
	mustRequest := sentOnDemand || body.req.ExpectsContinue()
	if !body.fitsBuffer() || mustRequest {
		return nil
	}
	if err := body.ReadAvailable(); err != nil || body.req.Body.Done() {
		return err
	}
	body.beginBuffering()
	err := body.readRest(limit)
	return body.endBuffering(err)
}

// beginBuffering allows CancelBuffering to cancel reading.
func (body *Body) beginBuffering() {
	body.bufferingMu.Lock()
	defer body.bufferingMu.Unlock()
	body.isBuffering, body.timedOut = true, false
}

// endBuffering records the end of reading. It returns the reason why reading was cancelled, and otherwise err.
func (body *Body) endBuffering(err error) error {
	body.noteRead()
	body.bufferingMu.Lock()
	body.isBuffering = false
	timedOut := body.timedOut
	body.bufferingMu.Unlock()
	switch exceedsMemory := body.ReleaseMemory(); {
	case timedOut:
		return ErrTotalTimeout
	case exceedsMemory:
		return ErrMemoryLimit
	}
	return err
}

// CancelBuffering cancels BufferSmallBody or BufferForKey if one of them is waiting for the client and isOver
// returns true. The rest of the body is then lost. The current request cannot end while isOver is being called. Any
// goroutine may call CancelBuffering.
func (body *Body) CancelBuffering(isOver func() bool) {
	body.bufferingMu.Lock()
	defer body.bufferingMu.Unlock()
	if body.isBuffering && !body.timedOut && isOver() {
		body.timedOut = true
		body.client.StopRead()
	}
}

// readRest reads the rest of a body into Buffered. The memory counts toward limit, and grows with the received
// data, so that a client that declares 64 KiB and sends one byte does not occupy 64 KiB.
func (body *Body) readRest(limit int64) error {
	clientBody := &body.req.Body
	for counted := 0; !clientBody.Done(); {
		if len(body.Buffered) == cap(body.Buffered) {
			body.growBuffer(len(body.Buffered) + 1)
		}
		counted = body.CountMemory(counted, 0, limit)
		bufferedLen := len(body.Buffered)
		end := min(cap(body.Buffered), bufferedLen+int(clientBody.Remaining()))
		n, err := clientBody.Read(body.Buffered[bufferedLen:end])
		body.Buffered = body.Buffered[:bufferedLen+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// CanBufferForKey reports whether BufferForKey may be able to read the whole body, up to maxSize bytes. It cannot
// if the declared length is larger, or if more has already been read.
func (body *Body) CanBufferForKey(maxSize int) bool {
	buffered := len(body.Buffered)
	return !body.ExceedsBuffer && buffered <= maxSize && body.req.Body.Remaining() <= int64(maxSize-buffered)
}

// BufferForKey reads the body, up to maxSize bytes, because the key of the request may be in it. Unlike
// BufferSmallBody, it also reads a body of unknown length, and one that the client sends on demand, which the
// caller must have requested. isComplete reports whether Buffered is the whole body. It does not depend on timing:
// a body of unknown length must be smaller than maxSize, because its end may arrive later than its last byte.
//
// limit is the memory limit of all bodies that are being read, in bytes.
func (body *Body) BufferForKey(maxSize int, limit int64) (isComplete bool, err error) {
	clientBody := &body.req.Body
	if !body.CanBufferForKey(maxSize) {
		return false, nil
	}
	if !clientBody.Done() {
		body.beginBuffering()
		if err = body.endBuffering(body.readUpTo(maxSize, limit)); err != nil {
			return false, err
		}
	}
	isFull := clientBody.Kind() == h1.Chunked && len(body.Buffered) >= maxSize
	return err == nil && clientBody.Done() && !isFull, err
}

// readUpTo reads a body into Buffered, until its end or until Buffered contains maxSize bytes. The memory counts
// toward limit, and grows with the received data.
func (body *Body) readUpTo(maxSize int, limit int64) error {
	clientBody := &body.req.Body
	for counted := 0; !clientBody.Done() && len(body.Buffered) < maxSize; {
		if len(body.Buffered) == cap(body.Buffered) {
			body.growBuffer(len(body.Buffered) + 1)
		}
		counted = body.CountMemory(counted, 0, limit)
		bufferedLen := len(body.Buffered)
		end := min(cap(body.Buffered), maxSize)
		n, err := clientBody.Read(body.Buffered[bufferedLen:end])
		body.Buffered = body.Buffered[:bufferedLen+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// ErrMemoryLimit reports that reading a body was cancelled because all incomplete bodies together
// exceed their memory limit.
var ErrMemoryLimit = errors.New("reqbody: body given up")

// ErrTotalTimeout reports that the body has not arrived within the total timeout of its request.
var ErrTotalTimeout = errors.New("reqbody: total timeout")

// CountMemory counts the memory of a request whose body is incomplete, plus extraBytes that are
// stored elsewhere. counted is the result of the previous call.
func (body *Body) CountMemory(counted, extraBytes int, limit int64) int {
	size := body.client.BufferSize() + body.req.MemorySize() + cap(body.Buffered) + extraBytes
	if size > counted {
		body.shared.OnShed(body.shared.Memory.Add(&body.memory, size-counted, limit))
	}
	return max(size, counted)
}

// growBuffer grows the capacity of buffered to at least n bytes.
func (body *Body) growBuffer(n int) {
	if cap(body.Buffered) >= n {
		return
	}
	old := body.Buffered
	body.Buffered = append(body.shared.Buffers.Get(n), old...)
	if cap(old) > 0 {
		body.shared.Buffers.Put(old)
	}
}

// ReleaseBuffer empties buffered, and returns a large buffer to its pool.
func (body *Body) ReleaseBuffer() {
	if cap(body.Buffered) > buffer.SmallSize {
		body.shared.Buffers.Put(body.Buffered)
		body.Buffered = nil
	}
	body.Buffered = body.Buffered[:0]
}

// IsFullyBuffered reports whether the whole body is buffered. It is true if there is no body.
func (body *Body) IsFullyBuffered() bool { return body.req.Body.Done() && !body.ExceedsBuffer }

// IsReplayable reports whether the body can be sent again from its start.
func (body *Body) IsReplayable() bool { return !body.ExceedsBuffer && !body.Unreadable }

// StartSending sends the body in the sending goroutine. It begins with the first bufferedBytes bytes
// of buffered. The goroutine ends after the end of the body, after an error, or when StopSending is
// called.
func (body *Body) StartSending(writer *h1.Writer, bufferedBytes int) {
	if body.sendDone == nil {
		body.sendDone = make(chan struct{}, 1)
	}
	body.sending = true
	body.BeginRead()
	body.sendingEnd.Store(false)
	body.destination.Store(bodyToApp)
	go func() {
		readErr := body.shared.Recover(func() error {
			err := body.sendRest(writer, bufferedBytes)
			appStoppedReading := err == nil && !body.req.Body.Done()
			if appStoppedReading && !body.destination.CompareAndSwap(bodyToApp, bodySendFailed) { // the response has begun
				body.discardRest()
			}
			return err
		})
		body.EndRead()
		body.onSent(readErr)
		body.ClientErr = readErr
		body.sendDone <- struct{}{}
	}()
}

// sendRest sends the body, and buffers it up to BodyBuffer. It returns the error of the client. It ignores an error
// of the upstream connection, because reading the response will also return one.
func (body *Body) sendRest(writer *h1.Writer, bufferedBytes int) error {
	clientBody := &body.req.Body
	if _, err := writer.Write(body.Buffered[:bufferedBytes]); err != nil {
		return nil //nolint:nilerr // an upstream error, see sendRest
	}
	if clientBody.Remaining() > int64(body.shared.BufferSize-len(body.Buffered)) {
		body.ExceedsBuffer = true
	}
	for !body.ExceedsBuffer && !clientBody.Done() {
		if len(body.Buffered) >= body.shared.BufferSize {
			body.ExceedsBuffer = true
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

// sendBuffered reads the next part of the body into the buffer, and sends it. If the client has already sent more
// data, sendBuffered leaves the part in writer, to be sent together with that data. readErr is an error of the
// client, and writeErr one of the upstream connection.
func (body *Body) sendBuffered(writer *h1.Writer) (readErr, writeErr error) {
	clientBody := &body.req.Body
	bufferedLen := len(body.Buffered)
	if err := body.readPart(); err != nil && !errors.Is(err, io.EOF) {
		return err, nil
	}
	if _, err := writer.Write(body.Buffered[bufferedLen:]); err != nil {
		return nil, err
	}
	moreIsAvailable := clientBody.Kind() == h1.Length && clientBody.Available() > 0
	if clientBody.Done() || moreIsAvailable {
		return nil, nil
	}
	return nil, writer.Flush()
}

// readPart reads the next part of the body into Buffered. The error may be io.EOF.
func (body *Body) readPart() error {
	bufferedLen := len(body.Buffered)
	body.growBuffer(bufferedLen + 1)
	n, err := body.req.Body.Read(body.Buffered[bufferedLen:cap(body.Buffered)])
	body.Buffered = body.Buffered[:bufferedLen+n]
	return err
}

// ReadToBuffer reads the next part of the body for an app in this process, and stores it in Buffered, so that
// the request can be sent again. If the body exceeds the buffer, it returns false and reads nothing. The error
// may be io.EOF.
func (body *Body) ReadToBuffer() (isBuffered bool, err error) {
	space := body.shared.BufferSize - len(body.Buffered)
	if body.ExceedsBuffer || space <= 0 || body.req.Body.Remaining() > int64(space) {
		body.ExceedsBuffer = true
		return false, nil
	}
	return true, body.readPart()
}

// States of Body.destination.
const (
	bodyToApp      uint32 = iota
	bodySendFailed        // the app accepts no more data, and the goroutine has ended
	bodyDiscarded         // the response has begun; body data that the app does not accept is discarded
)

// BeginDiscarding is called when a final response arrives before the whole body has been sent. Such a response ends
// the connection, but a client that sends its whole body before it reads must be able to finish. The part of the
// body that the app does not accept is therefore read and discarded.
//
// BeginDiscarding returns true if the sending goroutine has ended because the app accepts no more
// data. The caller must then stop watching for a disconnect, and call DiscardRest. Otherwise the
// sending goroutine discards the rest. Only the goroutine of the request calls BeginDiscarding, while
// the body is being sent.
func (body *Body) BeginDiscarding() (sendFailed bool) {
	if body.destination.Swap(bodyDiscarded) != bodySendFailed {
		return false
	}
	<-body.sendDone
	return true
}

// DiscardRest reads and discards the rest of the body in another goroutine.
func (body *Body) DiscardRest() {
	body.reading.Store(true)
	go func() {
		_ = body.shared.Recover(func() error { body.discardRest(); return nil }) // Recover has logged a panic
		body.reading.Store(false)
		body.onSent(nil)
		body.sendDone <- struct{}{}
	}()
}

// discardRest reads and discards the rest of the body, until its end, an error, or the call of
// StopSending. Afterwards the request cannot be retried. An error of the client is ignored: the response continues, and
// writing it will fail if the client has disconnected.
func (body *Body) discardRest() {
	body.ExceedsBuffer = true
	clientBody := &body.req.Body
	_ = clientBody.SetMaxBytes(0)
	_ = clientBody.Drain(math.MaxInt64)
}

// StopSending ends the sending goroutine and waits for it. If the goroutine had to be interrupted, no
// further data can be read from the client's connection.
func (body *Body) StopSending() {
	if !body.sending {
		return
	}
	select {
	case <-body.sendDone:
	default:
		body.Unreadable = true
		body.client.StopRead()
		<-body.sendDone
	}
	body.finishSending()
}

// AwaitSendingEnd waits for the sending goroutine without interrupting it, so that the rest of the body can be read
// later. The connection to the app must already be closed, so that the goroutine ends after the client's next data
// or an error of its connection.
func (body *Body) AwaitSendingEnd() {
	if body.sending {
		<-body.sendDone
		body.finishSending()
	}
}

// lastBytesWait is how long AwaitSent waits for the last bytes of a body to be sent, after the response has
// arrived. That suffices for a peer that reads from its socket.
const lastBytesWait = 50 * time.Millisecond

// AwaitSent reports whether the body was sent completely. If the end of the body is being sent, it waits for up to
// lastBytesWait, because an app that has read the whole body may respond before the sending goroutine returns.
func (body *Body) AwaitSent() bool {
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

// finishSending collects the result of the sending goroutine, which has ended.
func (body *Body) finishSending() {
	body.sending = false
	if errors.Is(body.ClientErr, h1.ErrStopped) {
		body.ClientErr = nil // StopSending has interrupted the read
	}
	if body.ClientErr != nil {
		body.Unreadable = true
	}
}
