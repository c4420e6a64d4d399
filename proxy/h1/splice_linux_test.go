package h1_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// farTime is the timeout of the far ends.
const farTime = 10 * time.Second

// hop is a proxy between an app and a client, each at the far end of a socket.
type hop struct {
	t              *testing.T
	app, client    net.Conn
	up, down       *h1.Conn
	res            h1.Response
	buffers        *h1.Buffers
	lent, spliced  atomic.Int64
	written, taken int64 // bytes of the last Copy: as counted by the socket, and as returned
}

func newHop(t *testing.T, timeouts h1.Timeouts) *hop {
	t.Helper()
	h := &hop{t: t}
	h.buffers = &h1.Buffers{BytesInUse: &h.lent, BytesSpliced: &h.spliced}
	return h.with(h.buffers, timeouts)
}

// with opens the connections and returns h.
func (h *hop) with(buffers *h1.Buffers, timeouts h1.Timeouts) *hop {
	h.t.Helper()
	var near net.Conn
	near, h.app = tcpPair(h.t)
	h.up = h1.NewConn(near, h1.Options{Buffers: buffers, Timeouts: timeouts, ReadBuffer: 32 << 10})
	near, h.client = tcpPair(h.t)
	h.down = h1.NewConn(near, h1.Options{Buffers: buffers, Timeouts: timeouts})
	for _, far := range []net.Conn{h.app, h.client} {
		_ = far.SetDeadline(time.Now().Add(farTime))
	}
	return h
}

// pass forwards one response without its end. It returns the writer, and the errors of reading and
// writing.
func (h *hop) pass() (w *h1.Writer, rerr, werr error) {
	if err := h.up.ReadResponse(&h.res, []byte("GET")); err != nil {
		h.t.Errorf("ReadResponse: %v", err)
		return nil, err, nil
	}
	before := h.down.Sent()
	w = h.down.WriteResponseHeader(&h.res, &h1.Edit{})
	h.taken, rerr, werr = w.Copy(&h.res.Body)
	h.written = h.down.Sent() - before
	return w, rerr, werr
}

// passWhole forwards one response in another goroutine. The channel receives its result.
func (h *hop) passWhole() <-chan error {
	done := make(chan error, 1)
	go func() {
		w, rerr, werr := h.pass()
		if err := errors.Join(rerr, werr); err != nil {
			done <- err
			return
		}
		done <- w.Close(h.res.Body.Trailers())
	}()
	return done
}

// result waits for the result of a response, for longer than farTime.
func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * farTime):
		t.Fatal("the answer never ends")
		return nil
	}
}

// noise returns n pseudo-random bytes, so that each position can be recognized.
func noise(n int) string {
	var seed [32]byte
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(p) // never fails
	return string(p)
}

// chunks encodes a body in chunks of the given sizes.
func chunks(body string, sizes ...int) string {
	var b strings.Builder
	for _, n := range sizes {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	if body != "" {
		panic("the sizes are not those of the body")
	}
	return b.String() + "0\r\nX-Last: 1\r\n\r\n"
}

// longAnswer is a response in which splicing could lose or add bytes. The kernel moves all of it,
// none, or a part that depends on how much arrives with the headers.
type longAnswer struct {
	head, bytes, body string
	spliced, copied   bool
}

func longAnswers() map[string]longAnswer {
	const from = 512 << 10
	all := map[string]longAnswer{}
	for _, n := range []int{0, 1, 32 << 10, from - 1, from, from + 1, from + 32<<10, from + 64<<10 + 1, 1 << 20, 3<<20 + 17} {
		body := noise(n)
		all[fmt.Sprintf("of %d bytes", n)] = longAnswer{fmt.Sprintf("Content-Length: %d\r\n", n), body, body, n > from+64<<10, n < from}
	}
	const chunked = "Transfer-Encoding: chunked\r\n"
	body := noise(3 << 20)
	all["in a chunk"] = longAnswer{chunked, chunks(body, 3<<20), body, true, false}
	all["in two chunks"] = longAnswer{chunked, chunks(body, 1<<20, 2<<20), body, true, false}
	all["in chunks of which few are long"] = longAnswer{chunked, chunks(body, 1, 1<<20, 2, 100_000, 1<<20+7, 5, 3<<20-2<<20-100_000-15), body, true, false}
	return all
}

// A spliced response arrives unchanged. Bytes after it belong to the next response, at both ends.
func TestSplicedAnswersAreWhole(t *testing.T) {
	for name, a := range longAnswers() {
		t.Run(name, func(t *testing.T) {
			h := newHop(t, h1.Timeouts{Body: 5 * time.Second, Write: 5 * time.Second})
			go writeString(t, h.app, "HTTP/1.1 200 OK\r\n"+a.head+"\r\n"+a.bytes+"HTTP/1.1 299 Next\r\nContent-Length: 2\r\n\r\nhi")
			r := bufio.NewReader(h.client)
			for _, want := range []string{a.body, "hi"} {
				done := h.passWhole()
				res, err := http.ReadResponse(r, nil) //nolint:bodyclose // it is closed at its end
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				shut(t, res.Body)
				if err != nil || string(got) != want {
					t.Fatalf("%s: %d bytes, %v, want %d, first difference at %d", res.Status, len(got), err, len(want), differ(string(got), want))
				}
				if err := result(t, done); err != nil {
					t.Fatalf("%s: %v", res.Status, err)
				}
				if h.taken != int64(len(want)) || h.res.Body.Received() != h.taken {
					t.Errorf("%d bytes were taken and %d received, want %d", h.taken, h.res.Body.Received(), len(want))
				}
			}
			if n := h.spliced.Load(); n == 0 && a.spliced || n > 0 && a.copied {
				t.Errorf("%d bytes were spliced", n)
			}
			h.up.ReleaseEmptyBuffers()
			h.down.ReleaseEmptyBuffers()
			if n := h.lent.Load(); n != 0 {
				t.Errorf("%d bytes of buffers are still lent", n)
			}
		})
	}
}

// differ returns the first position where two texts differ.
func differ(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A client of HTTP/1.0 gets the data of chunks without their framing, and then the end of the
// connection.
func TestSplicedChunksLoseTheirFrames(t *testing.T) {
	h := newHop(t, h1.Timeouts{Body: 5 * time.Second, Write: 5 * time.Second})
	body := noise(2 << 20)
	go writeString(t, h.app, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks(body, 1<<20, 1<<20))
	go func() {
		if err := h.up.ReadResponse(&h.res, []byte("GET")); err != nil {
			t.Errorf("ReadResponse: %v", err)
		}
		w := h.down.Writer()
		w.BeginBody(h1.UntilClose, 0)
		if _, rerr, werr := w.Copy(&h.res.Body); rerr != nil || werr != nil || w.Close(nil) != nil {
			t.Errorf("Copy = %v, %v", rerr, werr)
		}
		shut(t, h.down)
	}()
	if got, err := io.ReadAll(h.client); err != nil || string(got) != body {
		t.Errorf("%d bytes, %v, first difference at %d of %d", len(got), err, differ(string(got), body), len(body))
	}
	if h.spliced.Load() < 1<<20 {
		t.Errorf("%d bytes were spliced", h.spliced.Load())
	}
}

// Uploads are copied, and so are connections with TLS or another wrapper.
func TestSpliceLeavesUploadsAndWrappersAlone(t *testing.T) {
	h := newHop(t, h1.Timeouts{Body: 5 * time.Second, Write: 5 * time.Second})
	body := noise(2 << 20)
	go writeString(t, h.client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\n"+body)
	var ends sync.WaitGroup
	ends.Go(func() { swallow(t, h.app, 2<<20) })
	var req h1.Request
	if err := h.down.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	w := h.up.WriteRequestHeader(&req, &h1.Edit{})
	if n, rerr, werr := w.Copy(&req.Body); n != 2<<20 || rerr != nil || werr != nil || w.Close(nil) != nil {
		t.Errorf("Copy = %d, %v, %v", n, rerr, werr)
	}
	ends.Wait()
	if n := h.spliced.Load(); n != 0 {
		t.Errorf("%d bytes of an upload were spliced", n)
	}
	near, far := tcpPair(t)
	_ = far.SetDeadline(time.Now().Add(farTime))
	h.down = h1.NewConn(struct{ net.Conn }{near}, h1.Options{Buffers: &h1.Buffers{BytesSpliced: &h.spliced}})
	ends.Go(func() { swallow(t, far, 2<<20) })
	go writeString(t, h.app, "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n"+body)
	if err := result(t, h.passWhole()); err != nil {
		t.Error(err)
	}
	ends.Wait()
	if n := h.spliced.Load(); n != 0 {
		t.Errorf("%d bytes were spliced to what is no socket", n)
	}
}

// The headers, and the bytes that arrived with them, are sent without waiting for more. The last bytes
// of a body of known length are kept until the end, so no client gets the end of a response before the
// run has ended.
func TestSplicedAnswersBeginAtOnceAndEndWithClose(t *testing.T) {
	h := newHop(t, h1.Timeouts{})
	body := noise(1 << 20)
	writeString(t, h.app, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"+body[:10])
	passed := make(chan *h1.Writer, 1)
	go func() {
		w, rerr, werr := h.pass()
		if rerr != nil || werr != nil {
			t.Errorf("Copy = %v, %v", rerr, werr)
		}
		passed <- w
	}()
	r := bufio.NewReader(h.client)
	res, err := http.ReadResponse(r, nil) //nolint:bodyclose // it is closed at its end
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	if _, err := io.ReadFull(res.Body, got[:10]); err != nil {
		t.Fatal(err)
	}
	writeString(t, h.app, body[10:500_000])
	if _, err := io.ReadFull(res.Body, got[10:500_000]); err != nil {
		t.Fatal(err)
	}
	writeString(t, h.app, body[500_000:])
	rest := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(res.Body, got[500_000:])
		rest <- err
	}()
	w := <-passed
	if n := w.Pending(); n == 0 {
		t.Error("all of the answer has left before its end was written")
	}
	if err := w.Close(nil); err != nil {
		t.Error(err)
	}
	if err := <-rest; err != nil || string(got) != body {
		t.Errorf("the body arrived with %v, first difference at %d", err, differ(string(got), body))
	}
	shut(t, res.Body)
}

// The response is visibly truncated if the app crashes, if it pauses for too long, or if its
// connection is closed by the node. No pipe keeps data for another response.
func TestSplicedAnswersAreCutVisibly(t *testing.T) {
	framed := map[string]string{
		"by length": "Content-Length: 4194304\r\n\r\n",
		"in chunks": "Transfer-Encoding: chunked\r\n\r\n400000\r\n",
	}
	ends := map[string]struct {
		end  func(h *hop)
		want error
	}{
		"the app dies":   {func(h *hop) { shut(h.t, h.app) }, io.ErrUnexpectedEOF},
		"the app pauses": {func(*hop) {}, os.ErrDeadlineExceeded},
		"cut here":       {func(h *hop) { _ = h.up.Abort() }, net.ErrClosed},
		"stopped here":   {func(h *hop) { h.up.StopRead() }, h1.ErrStopped},
	}
	part := noise(2 << 20)
	for framing, head := range framed {
		for name, tc := range ends {
			t.Run(name+", "+framing, func(t *testing.T) {
				timeouts := h1.Timeouts{}
				if errors.Is(tc.want, os.ErrDeadlineExceeded) {
					timeouts.Body = 200 * time.Millisecond
				}
				h := newHop(t, timeouts)
				ended := make(chan error, 1)
				go func() {
					w, rerr, werr := h.pass()
					if werr != nil {
						t.Errorf("werr = %v", werr)
					}
					w.Abort()
					if w.Close(nil) == nil {
						t.Error("a cut answer was ended")
					}
					shut(t, h.down)
					ended <- rerr
				}()
				go writeString(t, h.app, "HTTP/1.1 200 OK\r\n"+head+part)
				res, err := http.ReadResponse(bufio.NewReader(h.client), nil) //nolint:bodyclose // it is closed at its end
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(part))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != part {
					t.Errorf("what came before: %v, first difference at %d", err, differ(string(got), part))
				}
				tc.end(h)
				if rest, err := io.ReadAll(res.Body); err == nil || len(rest) > 0 {
					t.Errorf("behind the cut: %d bytes, %v", len(rest), err)
				}
				if err := result(t, ended); !errors.Is(err, tc.want) {
					t.Errorf("rerr = %v, want %v", err, tc.want)
				}
				if h.spliced.Load() == 0 {
					t.Error("nothing was spliced")
				}
			})
		}
	}
}

// A client that does not read is aborted after the write timeout, and the bytes that it was sent are
// counted. Cancelling the run wakes the blocked writer. Data in the pipe does not reach another
// client.
func TestSpliceToReaderThatStalls(t *testing.T) {
	body := noise(64 << 20)
	for name, tc := range map[string]struct {
		write time.Duration
		cut   bool
		want  error
	}{"given up": {100 * time.Millisecond, false, os.ErrDeadlineExceeded}, "cut": {0, true, net.ErrClosed}} {
		t.Run(name, func(t *testing.T) {
			h := newHop(t, h1.Timeouts{Write: tc.write})
			app := h.app
			go func() { _, _ = io.WriteString(app, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"+body) }() // until the connection is closed
			done := h.passWhole()
			for began := time.Now(); h.spliced.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > farTime {
					t.Fatal("nothing is spliced")
				}
			}
			if tc.cut {
				shut(t, h.down)
			}
			if err := result(t, done); !errors.Is(err, tc.want) {
				t.Errorf("Copy = %v, want %v", err, tc.want)
			}
			shut(t, h.up)
			_ = h.down.Close() // may be the second call
			got, _ := io.ReadAll(h.client)
			_, sent, ok := bytes.Cut(got, []byte("\r\n\r\n"))
			if !ok || !strings.HasPrefix(body, string(sent)) || int64(len(got)) != h.written {
				t.Errorf("the client got %d bytes, %d of them counted, first difference at %d of %d", len(got), h.written, differ(string(sent), body), len(sent))
			}
			h.up.ReleaseBuffers()
			h.down.ReleaseBuffers()
			if n := h.lent.Load(); n != 0 {
				t.Errorf("%d bytes of buffers are still lent", n)
			}
			h.with(h.buffers, h1.Timeouts{Body: 5 * time.Second})
			go writeString(t, h.app, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"+body[1<<20:2<<20])
			next := h.passWhole()
			res, err := http.ReadResponse(bufio.NewReader(h.client), nil) //nolint:bodyclose // it is closed at its end
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != body[1<<20:2<<20] {
				t.Errorf("the next one got %d bytes, %v, first difference at %d", len(got), err, differ(string(got), body[1<<20:2<<20]))
			}
			if err := result(t, next); err != nil {
				t.Error(err)
			}
			shut(t, res.Body)
		})
	}
}
