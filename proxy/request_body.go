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
// can be sent again. A goroutine sends the rest while the response arrives. The fields belong to
// the goroutine of the connection. The sending goroutine may set some of them before it sends on
// done.
type requestBody struct {
	server *Server
	conn   *h1.Conn
	req    *h1.Request
	onSent func(rerr error) // called when the sending goroutine ends, with the error of the client's connection

	buffered  []byte             // beginning of the body
	memory    buffer.Reservation // memory of a body that gather is reading
	running   bool
	broken    bool  // the client's body cannot be read any further
	clientErr error // error of the client's connection
	overflow  bool  // more of the body was read than is buffered
	done      chan struct{}
	// reading means that the body is being read from the client after the run has begun.
	reading atomic.Bool
	// readAt is the time of the last read from the client, by the clock of the server. Zero means
	// that the body arrived with the header.
	readAt atomic.Int64
	// ending means that the whole body has been read and its end is being sent, while running is
	// set.
	ending atomic.Bool
	// route is the destination of the body: bodyToApp, bodyBroken or bodyDropped.
	route atomic.Uint32
}

func (body *requestBody) init(s *Server, conn *h1.Conn, req *h1.Request, over func(error)) {
	body.server, body.conn, body.req, body.onSent = s, conn, req, over
	body.memory.SetStop(conn.StopRead)
}

// reset prepares for the next request, and keeps the buffer.
func (body *requestBody) reset() {
	body.running, body.broken, body.clientErr, body.overflow = false, false, nil, false
	if body.readAt.Load() != 0 {
		body.readAt.Store(0)
	}
}

// noteRead records the time of a read from the client.
func (body *requestBody) noteRead() { body.readAt.Store(int64(body.server.clock.Now())) }

// beginRead records that the body is being read from the client.
func (body *requestBody) beginRead() { body.reading.Store(true) }

// endRead records that the body is no longer being read.
func (body *requestBody) endRead() {
	body.noteRead()
	body.reading.Store(false)
}

// readAvailable reads the available part of a body that fits into the buffer, without blocking. A
// larger body stays in the connection until it is sent.
func (body *requestBody) readAvailable() error {
	clientBody := &body.req.Body
	left := clientBody.Remaining()
	if left <= 0 || left > int64(body.server.options.BodyBuffer) || body.overflow {
		return nil
	}
	n := min(int(left), len(body.conn.Buffered()))
	if n == 0 {
		return nil
	}
	body.makeRoom(len(body.buffered) + n)
	have := len(body.buffered)
	got, _, err := clientBody.Fill(body.buffered[have : have+n])
	body.buffered = body.buffered[:have+got]
	return err
}

// gather reads the whole body if it fits into the buffer, before the request occupies a connection
// to the app. A client that sends slowly then delays only itself. gather does not wait for a body
// that the client or the other node sends on demand.
func (body *requestBody) gather(onDemand bool, total int64) error {
	clientBody := &body.req.Body
	left := clientBody.Remaining()
	if left <= 0 || left > int64(body.server.options.BodyBuffer) || body.overflow || onDemand || body.req.ExpectsContinue() {
		return nil
	}
	if err := body.readAvailable(); err != nil || clientBody.Done() {
		return err
	}
	err := body.readRest(total)
	body.noteRead()
	if body.server.bodyMemory.Release(&body.memory) {
		return errGivenUp
	}
	return err
}

// readRest reads the rest of a body into buffered. The memory counts towards the limit total. It
// grows with the received data, so a client that declares 64 KiB and sends one byte does not occupy
// 64 KiB.
func (body *requestBody) readRest(total int64) error {
	clientBody := &body.req.Body
	for noted := 0; !clientBody.Done(); {
		if len(body.buffered) == cap(body.buffered) {
			body.makeRoom(len(body.buffered) + 1)
		}
		noted = body.countMemory(noted, 0, total)
		have := len(body.buffered)
		n, err := clientBody.Read(body.buffered[have:min(cap(body.buffered), have+int(clientBody.Remaining()))])
		body.buffered = body.buffered[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// errGivenUp reports that reading a body was cancelled because all incomplete bodies together
// exceed their memory limit.
var errGivenUp = errors.New("proxy: body given up")

// countMemory counts the memory of a request whose body is incomplete, plus long bytes that are
// stored elsewhere. had is the result of the previous call.
func (body *requestBody) countMemory(had, long int, total int64) int {
	n := body.conn.BufferSize() + body.req.MemorySize() + cap(body.buffered) + long
	if n > had {
		body.server.metrics.shedBodies.Add(body.server.bodyMemory.Add(&body.memory, n-had, total))
	}
	return max(n, had)
}

// makeRoom grows the capacity of buffered to at least n bytes.
func (body *requestBody) makeRoom(n int) {
	if cap(body.buffered) >= n {
		return
	}
	old := body.buffered
	body.buffered = append(body.server.bodies.Get(n), old...)
	if cap(old) > 0 {
		body.server.bodies.Put(old)
	}
}

// free empties buffered, and returns a large buffer to its pool.
func (body *requestBody) free() {
	if cap(body.buffered) > buffer.Small {
		body.server.bodies.Put(body.buffered)
		body.buffered = nil
	}
	body.buffered = body.buffered[:0]
}

// isFullyBuffered reports whether the whole body is buffered. It is true if there is no body.
func (body *requestBody) isFullyBuffered() bool { return body.req.Body.Done() && !body.overflow }

// replayable reports whether the body can be sent again from its start.
func (body *requestBody) replayable() bool { return !body.overflow && !body.broken }

// start sends the rest of the body in a goroutine, after the first kept bytes of buffered. The
// goroutine ends after the end of the body, after an error, or when stop is called.
func (body *requestBody) start(writer *h1.Writer, kept int) {
	if body.done == nil {
		body.done = make(chan struct{}, 1)
	}
	body.running = true
	body.beginRead()
	body.ending.Store(false)
	body.route.Store(bodyToApp)
	go func() {
		rerr := body.server.pumpSafely(func() error {
			err := body.pump(writer, kept)
			if err == nil && !body.req.Body.Done() && !body.route.CompareAndSwap(bodyToApp, bodyBroken) {
				body.drop()
			}
			return err
		})
		body.endRead()
		body.onSent(rerr)
		body.clientErr = rerr
		body.done <- struct{}{}
	}()
}

// pump sends the body, and buffers it up to BodyBuffer. It returns the error of the client. It
// ignores an error of the upstream connection, because reading the response will return one too.
func (body *requestBody) pump(writer *h1.Writer, kept int) error {
	clientBody := &body.req.Body
	if _, err := writer.Write(body.buffered[:kept]); err != nil {
		return nil //nolint:nilerr // an upstream error, see pump
	}
	if left := clientBody.Remaining(); left > int64(body.server.options.BodyBuffer-len(body.buffered)) {
		body.overflow = true
	}
	for !body.overflow && !clientBody.Done() {
		have := len(body.buffered)
		if have == body.server.options.BodyBuffer {
			body.overflow = true
			break
		}
		body.makeRoom(have + 1)
		n, err := clientBody.Read(body.buffered[have:cap(body.buffered)])
		body.buffered = body.buffered[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := writer.Write(body.buffered[have:]); err != nil {
			return nil //nolint:nilerr // an upstream error, see pump
		}
		if clientBody.Done() || clientBody.Kind() == h1.Length && len(body.conn.Buffered()) > 0 {
			continue // more data is available, so send it together with that
		}
		if err := writer.Flush(); err != nil {
			return nil //nolint:nilerr // an upstream error, see pump
		}
	}
	if _, rerr, werr := writer.Copy(clientBody); rerr != nil || werr != nil {
		return rerr
	}
	// Set ending before the end of the body is sent, because the app may respond before Close
	// returns.
	body.ending.Store(true)
	_ = writer.Close(clientBody.Trailers()) // an upstream error, see pump
	return nil
}

// States of requestBody.route.
const (
	bodyToApp   uint32 = iota
	bodyBroken         // the connection to the app accepts no more data, and the goroutine has ended
	bodyDropped        // the response has begun; body data that the app does not accept is discarded
)

// respondsEarly handles a final response that arrives before the whole request body has been sent.
// Such a response ends the connection. A client that sends its whole body before it reads must be
// able to finish. Therefore the part of the body that the app does not accept is read and
// discarded. refused means that the app has refused the request; then no more of the body is sent
// to the app. Only the goroutine of the request calls respondsEarly, while running is set.
func (body *requestBody) respondsEarly(attempt *attempt, refused bool) {
	if body.route.Swap(bodyDropped) == bodyBroken {
		<-body.done
		attempt.disconnect.disarm() // the goroutine below reads from the client again
		body.reading.Store(true)
		go func() {
			_ = body.server.pumpSafely(func() error { body.drop(); return nil }) // pumpSafely has logged a panic
			body.reading.Store(false)
			body.onSent(nil)
			body.done <- struct{}{}
		}()
		return
	}
	if refused {
		attempt.conn.StopWrite()
	}
}

// drop reads and discards the rest of the body, until its end, an error, or stop. Afterwards the
// request cannot be sent again. An error of the client is ignored: the response continues, and
// writing it will fail if the client has disconnected.
func (body *requestBody) drop() {
	body.overflow = true
	clientBody := &body.req.Body
	_ = clientBody.SetMaxBytes(0)
	_ = clientBody.Drain(math.MaxInt64)
}

// stop ends the sending goroutine and waits for it. If the goroutine had to be interrupted, no
// further data can be read from the client's connection.
func (body *requestBody) stop() {
	if !body.running {
		return
	}
	select {
	case <-body.done:
	default:
		body.broken = true
		body.conn.StopRead()
		<-body.done
	}
	body.finish()
}

// lateBody is how long ended waits for the last bytes of a body to be sent, after the response has
// arrived. That suffices for a peer that reads from its socket.
const lateBody = 50 * time.Millisecond

// ended reports whether the body was sent completely. If the end of the body is being sent, it
// waits up to lateBody: an app that has read the whole body may respond before the sending
// goroutine has returned.
func (body *requestBody) ended() bool {
	if !body.running {
		return true
	}
	if !body.ending.Load() {
		return false
	}
	timer := time.NewTimer(lateBody)
	defer timer.Stop()
	select {
	case <-body.done:
		body.finish()
		return true
	case <-timer.C:
		return false
	}
}

func (body *requestBody) finish() {
	body.running = false
	if errors.Is(body.clientErr, h1.ErrStopped) {
		body.clientErr = nil
	}
	body.broken = body.broken || body.clientErr != nil
}
