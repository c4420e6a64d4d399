package proxy

import (
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// requestBody is the body of a request. It buffers the beginning, so that the request can be sent
// again, and has a goroutine that sends the rest while the response arrives. The fields belong to
// the goroutine of the connection, except for those that the sending goroutine sets before it
// sends on done.
type requestBody struct {
	s    *Server
	conn *h1.Conn
	req  *h1.Request
	over func(rerr error) // called when the sending goroutine ends, with the error of the client

	buffered []byte      // beginning of the body
	awaited  reservation // memory of a body that gather waits for
	running  bool
	broken   bool  // the client's body cannot be read any further
	rerr     error // error of the client
	overflow bool  // more was sent than is buffered
	done     chan struct{}
	// reading is true while the body is being read from the client, after the run has begun.
	reading atomic.Bool
	// readAt is the time of the last read from the client, by the clock of the server. Zero means
	// that the body arrived with the header.
	readAt atomic.Int64
	// ending means, while running, that the whole body has been read and is being sent.
	ending atomic.Bool
	// route is where the sending goroutine sends the body: bodyToApp, bodyBroken or
	// bodyDropped.
	route atomic.Uint32
}

func (u *requestBody) init(s *Server, h *h1.Conn, req *h1.Request, over func(error)) {
	u.s, u.conn, u.req, u.over = s, h, req, over
	u.awaited.stop = h.StopRead
}

// reset prepares for the next request, and keeps the buffer.
func (u *requestBody) reset() {
	u.running, u.broken, u.rerr, u.overflow = false, false, nil, false
	if u.readAt.Load() != 0 {
		u.readAt.Store(0)
	}
}

// noteRead records the time of a read from the client.
func (u *requestBody) noteRead() { u.readAt.Store(int64(u.s.clock.now())) }

// beginRead records that the body is being read from the client.
func (u *requestBody) beginRead() { u.reading.Store(true) }

// endRead records that the body is no longer being read.
func (u *requestBody) endRead() {
	u.noteRead()
	u.reading.Store(false)
}

// readAvailable moves the available part of a body that fits into the buffer to buffered, without
// blocking. A larger body stays in the connection until it is sent.
func (u *requestBody) readAvailable() error {
	body := &u.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(u.s.o.BodyBuffer) || u.overflow {
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

// gather waits for the whole body if it fits into the buffer, before the request takes a
// connection to the app. A client that sends slowly then delays only itself. gather does not wait
// for a body that the client or the other node sends on demand.
func (u *requestBody) gather(onDemand bool, total int64) error {
	body := &u.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(u.s.o.BodyBuffer) || u.overflow || onDemand || u.req.Expects() {
		return nil
	}
	if err := u.readAvailable(); err != nil || body.Done() {
		return err
	}
	err := u.await(total)
	u.noteRead()
	if u.s.awaited.over(&u.awaited) {
		return errGivenUp
	}
	return err
}

// await reads the rest of a body into buffered. Its memory counts for the limit total and grows
// with the data: a client that declares 64 KiB and sends one byte is not given 64 KiB.
func (u *requestBody) await(total int64) error {
	body := &u.req.Body
	for noted := 0; !body.Done(); {
		if len(u.buffered) == cap(u.buffered) {
			u.makeRoom(len(u.buffered) + 1)
		}
		noted = u.note(noted, 0, total)
		have := len(u.buffered)
		n, err := body.Read(u.buffered[have:min(cap(u.buffered), have+int(body.Remaining()))])
		u.buffered = u.buffered[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// errGivenUp is the result of reading a body that was cancelled because all incomplete bodies
// together exceed the memory limit.
var errGivenUp = errors.New("proxy: body given up")

// note counts the memory of a request whose body is incomplete, plus long bytes elsewhere. had is
// the result of the previous call.
func (u *requestBody) note(had, long int, total int64) int {
	n := u.conn.BufferSize() + u.req.MemorySize() + cap(u.buffered) + long
	if n > had {
		u.s.metrics.shedBodies.Add(u.s.awaited.more(&u.awaited, n-had, total))
	}
	return max(n, had)
}

// makeRoom grows buffered to a capacity of n bytes, at most BodyBuffer.
func (u *requestBody) makeRoom(n int) {
	if cap(u.buffered) >= n {
		return
	}
	old := u.buffered
	u.buffered = append(u.s.bodies.get(n), old...)
	if cap(old) > 0 {
		u.s.bodies.put(old)
	}
}

// free clears buffered, and returns a large buffer to its pool.
func (u *requestBody) free() {
	if cap(u.buffered) > smallBody {
		u.s.bodies.put(u.buffered)
		u.buffered = nil
	}
	u.buffered = u.buffered[:0]
}

// whole reports whether the whole body is buffered, or there is none.
func (u *requestBody) whole() bool { return u.req.Body.Done() && !u.overflow }

// replayable reports whether the body can be sent again from its start.
func (u *requestBody) replayable() bool { return !u.overflow && !u.broken }

// start sends the rest of the body in a goroutine, after the first kept bytes of buffered. The
// goroutine ends after the body, when the upstream connection is closed, or by stop.
func (u *requestBody) start(w *h1.Writer, kept int) {
	if u.done == nil {
		u.done = make(chan struct{}, 1)
	}
	u.running = true
	u.beginRead()
	u.ending.Store(false)
	u.route.Store(bodyToApp)
	go func() {
		rerr := u.s.pumpSafely(func() error {
			err := u.pump(w, kept)
			if err == nil && !u.req.Body.Done() && !u.route.CompareAndSwap(bodyToApp, bodyBroken) {
				u.drop()
			}
			return err
		})
		u.endRead()
		u.over(rerr)
		u.rerr = rerr
		u.done <- struct{}{}
	}()
}

// pump sends the body, and buffers it as long as BodyBuffer allows. It returns the error of the
// client. An error of the upstream connection is found when the response is read.
func (u *requestBody) pump(w *h1.Writer, kept int) error {
	body := &u.req.Body
	if _, err := w.Write(u.buffered[:kept]); err != nil {
		return nil //nolint:nilerr // an upstream error, see pump
	}
	if left := body.Remaining(); left > int64(u.s.o.BodyBuffer-len(u.buffered)) {
		u.overflow = true
	}
	for !u.overflow && !body.Done() {
		have := len(u.buffered)
		if have == u.s.o.BodyBuffer {
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
			continue // send it together with the next data
		}
		if err := w.Flush(); err != nil {
			return nil //nolint:nilerr // an upstream error, see pump
		}
	}
	if _, rerr, werr := w.Copy(body); rerr != nil || werr != nil {
		return rerr
	}
	// Set ending before the end of the body is sent: the last bytes are still in the buffer.
	u.ending.Store(true)
	_ = w.Close(body.Trailers()) // an upstream error, see pump
	return nil
}

// States of requestBody.route.
const (
	bodyToApp   uint32 = iota
	bodyBroken         // the connection to the app takes no more, and the goroutine has ended
	bodyDropped        // the response has begun: what the app does not take is read and dropped
)

// respondsEarly records that the final response has begun while the body is being sent, and that
// the response ends the connection. A client that sends its whole body before it reads must be
// able to finish, so the part that the app does not accept is read and dropped. refused means that
// the app has refused the request; then no further part of the body is sent to it. The goroutine
// of the request calls respondsEarly while the body is being sent.
func (u *requestBody) respondsEarly(p *attempt, refused bool) {
	if u.route.Swap(bodyDropped) == bodyBroken {
		<-u.done
		p.disconnect.disarm() // the following goroutine reads again
		u.reading.Store(true)
		go func() {
			_ = u.s.pumpSafely(func() error { u.drop(); return nil }) // pumpSafely has logged a panic
			u.reading.Store(false)
			u.over(nil)
			u.done <- struct{}{}
		}()
		return
	}
	if refused {
		p.conn.StopWrite()
	}
}

// drop reads and drops the rest of the body, up to its end, an error, or stop. After that, the
// request cannot be sent again. An error of the client ends nothing: the response continues, and
// its writes show whether the client is connected.
func (u *requestBody) drop() {
	u.overflow = true
	body := &u.req.Body
	_ = body.Limit(0)
	_ = body.Drain(math.MaxInt64)
}

// stop ends the sending goroutine and waits for it. If the goroutine had not ended by itself, the
// connection of the client cannot be read any further.
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

// lateBody is how long the last bytes of a body may still be on their way to the socket after
// the response has arrived. A socket that is being read needs no longer.
const lateBody = 50 * time.Millisecond

// ended reports whether the body was sent completely. If its last bytes are being sent, it waits
// for them, because an app that has read everything may respond before the sending goroutine has
// noticed. Otherwise the body outlasts its response.
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
	if errors.Is(u.rerr, h1.ErrStopped) {
		u.rerr = nil
	}
	u.broken = u.broken || u.rerr != nil
}
