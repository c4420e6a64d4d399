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

func (u *requestBody) init(s *Server, h *h1.Conn, req *h1.Request, over func(error)) {
	u.server, u.conn, u.req, u.onSent = s, h, req, over
	u.memory.SetStop(h.StopRead)
}

// reset prepares for the next request, and keeps the buffer.
func (u *requestBody) reset() {
	u.running, u.broken, u.clientErr, u.overflow = false, false, nil, false
	if u.readAt.Load() != 0 {
		u.readAt.Store(0)
	}
}

// noteRead records the time of a read from the client.
func (u *requestBody) noteRead() { u.readAt.Store(int64(u.server.clock.Now())) }

// beginRead records that the body is being read from the client.
func (u *requestBody) beginRead() { u.reading.Store(true) }

// endRead records that the body is no longer being read.
func (u *requestBody) endRead() {
	u.noteRead()
	u.reading.Store(false)
}

// readAvailable reads the available part of a body that fits into the buffer, without blocking. A
// larger body stays in the connection until it is sent.
func (u *requestBody) readAvailable() error {
	body := &u.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(u.server.options.BodyBuffer) || u.overflow {
		return nil
	}
	n := min(int(left), len(u.conn.Buffered()))
	if n == 0 {
		return nil
	}
	u.makeRoom(len(u.buffered) + n)
	have := len(u.buffered)
	got, _, err := body.Fill(u.buffered[have : have+n])
	u.buffered = u.buffered[:have+got]
	return err
}

// gather reads the whole body if it fits into the buffer, before the request occupies a connection
// to the app. A client that sends slowly then delays only itself. gather does not wait for a body
// that the client or the other node sends on demand.
func (u *requestBody) gather(onDemand bool, total int64) error {
	body := &u.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(u.server.options.BodyBuffer) || u.overflow || onDemand || u.req.ExpectsContinue() {
		return nil
	}
	if err := u.readAvailable(); err != nil || body.Done() {
		return err
	}
	err := u.readRest(total)
	u.noteRead()
	if u.server.bodyMemory.Release(&u.memory) {
		return errGivenUp
	}
	return err
}

// readRest reads the rest of a body into buffered. The memory counts towards the limit total. It
// grows with the received data, so a client that declares 64 KiB and sends one byte does not occupy
// 64 KiB.
func (u *requestBody) readRest(total int64) error {
	body := &u.req.Body
	for noted := 0; !body.Done(); {
		if len(u.buffered) == cap(u.buffered) {
			u.makeRoom(len(u.buffered) + 1)
		}
		noted = u.countMemory(noted, 0, total)
		have := len(u.buffered)
		n, err := body.Read(u.buffered[have:min(cap(u.buffered), have+int(body.Remaining()))])
		u.buffered = u.buffered[:have+n]
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
func (u *requestBody) countMemory(had, long int, total int64) int {
	n := u.conn.BufferSize() + u.req.MemorySize() + cap(u.buffered) + long
	if n > had {
		u.server.metrics.shedBodies.Add(u.server.bodyMemory.Add(&u.memory, n-had, total))
	}
	return max(n, had)
}

// makeRoom grows the capacity of buffered to at least n bytes.
func (u *requestBody) makeRoom(n int) {
	if cap(u.buffered) >= n {
		return
	}
	old := u.buffered
	u.buffered = append(u.server.bodies.Get(n), old...)
	if cap(old) > 0 {
		u.server.bodies.Put(old)
	}
}

// free empties buffered, and returns a large buffer to its pool.
func (u *requestBody) free() {
	if cap(u.buffered) > buffer.Small {
		u.server.bodies.Put(u.buffered)
		u.buffered = nil
	}
	u.buffered = u.buffered[:0]
}

// isFullyBuffered reports whether the whole body is buffered. It is true if there is no body.
func (u *requestBody) isFullyBuffered() bool { return u.req.Body.Done() && !u.overflow }

// replayable reports whether the body can be sent again from its start.
func (u *requestBody) replayable() bool { return !u.overflow && !u.broken }

// start sends the rest of the body in a goroutine, after the first kept bytes of buffered. The
// goroutine ends after the end of the body, after an error, or when stop is called.
func (u *requestBody) start(w *h1.Writer, kept int) {
	if u.done == nil {
		u.done = make(chan struct{}, 1)
	}
	u.running = true
	u.beginRead()
	u.ending.Store(false)
	u.route.Store(bodyToApp)
	go func() {
		rerr := u.server.pumpSafely(func() error {
			err := u.pump(w, kept)
			if err == nil && !u.req.Body.Done() && !u.route.CompareAndSwap(bodyToApp, bodyBroken) {
				u.drop()
			}
			return err
		})
		u.endRead()
		u.onSent(rerr)
		u.clientErr = rerr
		u.done <- struct{}{}
	}()
}

// pump sends the body, and buffers it up to BodyBuffer. It returns the error of the client. It
// ignores an error of the upstream connection, because reading the response will return one too.
func (u *requestBody) pump(w *h1.Writer, kept int) error {
	body := &u.req.Body
	if _, err := w.Write(u.buffered[:kept]); err != nil {
		return nil //nolint:nilerr // an upstream error, see pump
	}
	if left := body.Remaining(); left > int64(u.server.options.BodyBuffer-len(u.buffered)) {
		u.overflow = true
	}
	for !u.overflow && !body.Done() {
		have := len(u.buffered)
		if have == u.server.options.BodyBuffer {
			u.overflow = true
			break
		}
		u.makeRoom(have + 1)
		n, err := body.Read(u.buffered[have:cap(u.buffered)])
		u.buffered = u.buffered[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := w.Write(u.buffered[have:]); err != nil {
			return nil //nolint:nilerr // an upstream error, see pump
		}
		if body.Done() || body.Kind() == h1.Length && len(u.conn.Buffered()) > 0 {
			continue // more data is available, so send it together with that
		}
		if err := w.Flush(); err != nil {
			return nil //nolint:nilerr // an upstream error, see pump
		}
	}
	if _, rerr, werr := w.Copy(body); rerr != nil || werr != nil {
		return rerr
	}
	// Set ending before the end of the body is sent, because the app may respond before Close
	// returns.
	u.ending.Store(true)
	_ = w.Close(body.Trailers()) // an upstream error, see pump
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
func (u *requestBody) respondsEarly(p *attempt, refused bool) {
	if u.route.Swap(bodyDropped) == bodyBroken {
		<-u.done
		p.disconnect.disarm() // the goroutine below reads from the client again
		u.reading.Store(true)
		go func() {
			_ = u.server.pumpSafely(func() error { u.drop(); return nil }) // pumpSafely has logged a panic
			u.reading.Store(false)
			u.onSent(nil)
			u.done <- struct{}{}
		}()
		return
	}
	if refused {
		p.conn.StopWrite()
	}
}

// drop reads and discards the rest of the body, until its end, an error, or stop. Afterwards the
// request cannot be sent again. An error of the client is ignored: the response continues, and
// writing it will fail if the client has disconnected.
func (u *requestBody) drop() {
	u.overflow = true
	body := &u.req.Body
	_ = body.SetMaxBytes(0)
	_ = body.Drain(math.MaxInt64)
}

// stop ends the sending goroutine and waits for it. If the goroutine had to be interrupted, no
// further data can be read from the client's connection.
func (u *requestBody) stop() {
	if !u.running {
		return
	}
	select {
	case <-u.done:
	default:
		u.broken = true
		u.conn.StopRead()
		<-u.done
	}
	u.finish()
}

// lateBody is how long ended waits for the last bytes of a body to be sent, after the response has
// arrived. That suffices for a peer that reads from its socket.
const lateBody = 50 * time.Millisecond

// ended reports whether the body was sent completely. If the end of the body is being sent, it
// waits up to lateBody: an app that has read the whole body may respond before the sending
// goroutine has returned.
func (u *requestBody) ended() bool {
	if !u.running {
		return true
	}
	if !u.ending.Load() {
		return false
	}
	timer := time.NewTimer(lateBody)
	defer timer.Stop()
	select {
	case <-u.done:
		u.finish()
		return true
	case <-timer.C:
		return false
	}
}

func (u *requestBody) finish() {
	u.running = false
	if errors.Is(u.clientErr, h1.ErrStopped) {
		u.clientErr = nil
	}
	u.broken = u.broken || u.clientErr != nil
}
