package proxy

import (
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// requestBody is the body of a request: what is kept of it, so that it can go again, and
// the goroutine that sends the rest while the answer may come in. The fields are the
// connection's own but for what that goroutine leaves behind before it sends on done.
type requestBody struct {
	s    *Server
	h    *h1.Conn
	req  *h1.Request
	over func(rerr error) // told in that goroutine that it ends, and what was wrong with the client

	buffered []byte      // of the body, from its start
	awaited  reservation // what it keeps before the request goes on
	running  bool
	broken   bool  // the client's body cannot be read any further
	rerr     error // what was wrong with it
	overflow bool  // more went out than is kept
	done     chan struct{}
	// reading is true while the body is being read from the client, after the run has begun.
	reading atomic.Bool
	// readAt is the time of the last read from the client, by the server's clock. Zero means that
	// the body arrived with the headers.
	readAt atomic.Int64
	// ending tells, while it runs, that all of it is there and goes out.
	ending atomic.Bool
	// route is where the goroutine sends the body.
	route atomic.Uint32
}

func (u *requestBody) init(s *Server, h *h1.Conn, req *h1.Request, over func(error)) {
	u.s, u.h, u.req, u.over = s, h, req, over
	u.awaited.stop = h.StopRead
}

// reset begins with the next request. Memory stays.
func (u *requestBody) reset() {
	u.running, u.broken, u.rerr, u.overflow = false, false, nil, false
	if u.readAt.Load() != 0 {
		u.readAt.Store(0)
	}
}

// noteRead sets the time of the last read from the client.
func (u *requestBody) noteRead() { u.readAt.Store(int64(u.s.clock.now())) }

// beginRead notes that the body is being read from the client.
func (u *requestBody) beginRead() { u.reading.Store(true) }

// endRead notes that the body is not being read any more.
func (u *requestBody) endRead() {
	u.noteRead()
	u.reading.Store(false)
}

// readAvailable moves what has come in of a body that can be kept into u.kept,
// without waiting for more. What is not kept stays where it is until it is sent.
func (u *requestBody) readAvailable() error {
	body := &u.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(u.s.o.BodyBuffer) || u.overflow {
		return nil
	}
	n := min(int(left), len(u.h.Buffered()))
	if n == 0 {
		return nil
	}
	u.makeRoom(len(u.buffered) + n)
	have := len(u.buffered)
	got, _, err := body.Fill(u.buffered[have : have+n])
	u.buffered = u.buffered[:have+got]
	return err
}

// gather waits for all of a body that can be kept, so that a connection to the app
// is taken for no longer than the app needs: whoever sends slowly holds up nobody
// but himself. It does not wait for a body that the client sends only when asked
// to, nor for one that another node does.
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

// await reads the rest of a body into u.kept. What the request keeps meanwhile
// counts, and grows with what has come: who says 64 KiB and sends a byte is not given
// 64 KiB.
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

// errGivenUp reports a body that was too slow beside all the others.
var errGivenUp = errors.New("proxy: body given up")

// note notes what a request keeps whose body is awaited, and long bytes elsewhere than
// here. Had is what was noted before; it returns what is now.
func (u *requestBody) note(had, long int, total int64) int {
	n := u.h.Kept() + u.req.Kept() + cap(u.buffered) + long
	if n > had {
		u.s.metrics.shedBodies.Add(u.s.awaited.more(&u.awaited, n-had, total))
	}
	return max(n, had)
}

// makeRoom gives u.kept room for n bytes, at most BodyBuffer.
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

// free forgets what was kept.
func (u *requestBody) free() {
	if cap(u.buffered) > smallBody {
		u.s.bodies.put(u.buffered)
		u.buffered = nil
	}
	u.buffered = u.buffered[:0]
}

// whole reports whether all of the body is kept, if there is one.
func (u *requestBody) whole() bool { return u.req.Body.Done() && !u.overflow }

// replayable reports whether the body can be sent again from its start.
func (u *requestBody) replayable() bool { return !u.overflow && !u.broken }

// start sends the rest of the body from a goroutine, after the first kept
// bytes of what is there already. The goroutine ends with the body, with the link
// (closed by who ends the trip) or by stop.
func (u *requestBody) start(w *h1.Writer, kept int) {
	if u.done == nil {
		u.done = make(chan struct{}, 1)
	}
	u.running = true
	u.beginRead()
	u.ending.Store(false)
	u.route.Store(uploadToApp)
	go func() {
		rerr := u.s.pumpSafely(func() error {
			err := u.pump(w, kept)
			if err == nil && !u.req.Body.Done() && !u.route.CompareAndSwap(uploadToApp, uploadBroken) {
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

// pump copies the body, and keeps it as long as BodyBuffer allows. It returns
// what was wrong with the client's side; what is wrong with the link shows where
// the answer is read.
func (u *requestBody) pump(w *h1.Writer, kept int) error {
	body := &u.req.Body
	if _, err := w.Write(u.buffered[:kept]); err != nil {
		return nil //nolint:nilerr // see above
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
			return nil //nolint:nilerr // see above
		}
		if body.Done() || body.Kind() == h1.Length && len(u.h.Buffered()) > 0 {
			continue // more goes out with it
		}
		if err := w.Flush(); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	if _, rerr, werr := w.Copy(body); rerr != nil || werr != nil {
		return rerr
	}
	// Until here the last bytes are in the buffer: nobody has seen the end before
	// this is known.
	u.ending.Store(true)
	_ = w.Close(body.Trailers()) // see above
	return nil
}

// States of upload.route.
const (
	uploadToApp   uint32 = iota
	uploadBroken         // the connection to the app takes no more, and the goroutine has ended
	uploadDropped        // the response has begun: what the app does not take is read and dropped
)

// respondsEarly says that the final response has begun while the body is being uploaded, and that it
// ends the connection. A client that sends its whole body before it reads anything must get rid of
// the body first, so what the app does not take is read and dropped while the response goes out. With
// refused the app has refused the request, and from now on no part of the body is sent to it.
// The flow of the request calls it, while the upload runs.
func (u *requestBody) respondsEarly(p *attempt, refused bool) {
	if u.route.Swap(uploadDropped) == uploadBroken {
		<-u.done
		p.disconnect.disarm() // reading begins again
		u.reading.Store(true)
		go func() {
			_ = u.s.pumpSafely(func() error { u.drop(); return nil }) // it has been logged
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

// drop reads and drops the rest of the body, up to its end, an error, or stop. The request cannot
// be sent again then. An error of the client ends nothing: the response goes on, and its writes
// show whether the client is there.
func (u *requestBody) drop() {
	u.overflow = true
	body := &u.req.Body
	_ = body.Limit(0)
	_ = body.Drain(math.MaxInt64)
}

// stop ends an upload and waits for its goroutine. If it had not come to
// its end by itself, the client's connection can be read no more.
func (u *requestBody) stop() {
	if !u.running {
		return
	}
	select {
	case <-u.done:
	default:
		u.broken = true
		u.h.StopRead()
		<-u.done
	}
	u.finish()
}

// lateUpload is for how long the last bytes of an upload may be on their way to
// the socket though the answer is there: no longer than a socket takes that is read.
const lateUpload = 50 * time.Millisecond

// ended reports whether the upload came to its end. It waits only for one
// whose last bytes are going out: an app that has read everything answers before
// the goroutine here has looked up. Any other outlasts its answer.
func (u *requestBody) ended() bool {
	if !u.running {
		return true
	}
	if !u.ending.Load() {
		return false
	}
	timer := time.NewTimer(lateUpload)
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
