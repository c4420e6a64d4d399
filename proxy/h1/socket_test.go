package h1_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/proxy/h1"
)

func TestSocketReadsWithoutWaiting(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{Buffers: new(h1.Buffers), Timeouts: h1.Timeouts{FirstByte: 20 * time.Millisecond}})
	var r h1.Request
	if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ReadRequest of nothing = %v, want a timeout", err)
	}
	c.SetTimeouts(h1.Timeouts{})
	writeString(t, far, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab")
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	shut(t, far)
	if b, err := io.ReadAll(&r.Body); string(b) != "ab" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("body = %q, %v, want ab and an unexpected end", b, err)
	}
}

func TestStopIdleOnASocketReadsWhatIsThere(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	writeString(t, far, header(""))
	waitReadable(near)
	c.StopWaiting()
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Errorf("ReadRequest of one that had arrived = %v", err)
	}
	if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrStopped) {
		t.Errorf("ReadRequest = %v, want ErrStopped", err)
	}
}

// A request that has arrived is read even if the idle timeout has expired. Once, a process that was
// paused for longer than the remaining idle time closed the connection, although a request had arrived
// in the meantime.
func TestRequestIsReadAlsoIfTheTimeIsOver(t *testing.T) {
	for range 20 { // the clock may not have advanced before the first check
		near, far := tcpPair(t)
		c := h1.NewConn(near, h1.Options{Timeouts: h1.Timeouts{FirstByte: time.Nanosecond}})
		writeString(t, far, header(""))
		waitReadable(near)
		var r h1.Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatalf("ReadRequest of one that had arrived = %v", err)
		}
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("ReadRequest of nothing = %v, want a timeout", err)
		}
	}
}

// waitReadable returns once nc is readable.
func waitReadable(nc net.Conn) {
	for c := h1.NewConn(nc, h1.Options{}); c.IsAlive(); {
		runtime.Gosched()
	}
}

func TestLongBodyGoesThroughSockets(t *testing.T) {
	client, front := tcpPair(t)
	back, app := tcpPair(t)
	bufs := new(h1.Buffers)
	body := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // 4 MiB
	for _, head := range []string{"Content-Length: 4194304\r\n", "Transfer-Encoding: chunked\r\n"} {
		go func() {
			c := h1.NewConn(client, h1.Options{})
			w := c.Writer()
			w.PutString("PUT / HTTP/1.1\r\nHost: h\r\n" + head + "\r\n")
			w.BeginBody(h1.Length, int64(len(body)))
			if strings.HasPrefix(head, "T") {
				w.BeginBody(h1.Chunked, 0)
			}
			if _, err := w.Write(body); err != nil {
				t.Error(err)
			}
			if err := w.Close(nil); err != nil {
				t.Error(err)
			}
		}()
		copied := make(chan error)
		go func() {
			cc := h1.NewConn(front, h1.Options{Buffers: bufs})
			uc := h1.NewConn(back, h1.Options{Buffers: bufs})
			var r h1.Request
			if err := cc.ReadRequest(&r); err != nil {
				copied <- err
				return
			}
			w := uc.WriteRequestHeader(&r, &h1.Edit{})
			_, rerr, werr := w.Copy(&r.Body)
			copied <- errors.Join(rerr, werr, w.Close(nil))
		}()
		var r h1.Request
		if err := h1.NewConn(app, h1.Options{}).ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(&r.Body)
		if !bytes.Equal(got, body) || err != nil {
			t.Errorf("%d bytes came through, %v", len(got), err)
		}
		if err := <-copied; err != nil {
			t.Error(err)
		}
	}
}

// watched watches a connection. The channel is closed when the client has disconnected.
func watched(c *h1.Conn) <-chan struct{} {
	gone := make(chan struct{})
	c.WatchDisconnect(func() { close(gone) })
	return gone
}

func TestWatchSeesTheClientLeave(t *testing.T) {
	near, far := tcpPair(t)
	leaves(t, h1.NewConn(near, h1.Options{}), far)
}

// leaves disconnects the client at the far end of a watched connection.
func leaves(t *testing.T, c *h1.Conn, far net.Conn) {
	t.Helper()
	gone := watched(c)
	writeString(t, far, header("")) // bytes neither hide the FIN nor count as one
	shut(t, far)
	<-gone
	if !c.StopWatch() {
		t.Error("StopWatch() = false after the client left")
	}
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Errorf("the watch consumed the request: %v", err)
	}
}

func TestWatchSeesAReset(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	gone := watched(c)
	if tcp, ok := far.(*net.TCPConn); !ok || tcp.SetLinger(0) != nil {
		t.Fatal("the connection cannot be reset")
	}
	shut(t, far)
	<-gone
	c.StopWatch()
}

func TestStoppedWatchLeavesTheConnectionReadable(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	var r h1.Request
	for range 100 {
		c.WatchDisconnect(func() { t.Error("gone called though the client stayed") })
		writeString(t, far, header(""))
		if c.StopWatch() {
			t.Fatal("StopWatch() = true though the client stayed")
		}
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
	}
	if c.StopWatch() {
		t.Error("StopWatch() = true without a watch")
	}
}

func TestWatchEndsWhenTheConnIsClosed(t *testing.T) {
	near, _ := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	gone := watched(c)
	shut(t, c)
	<-gone
	c.StopWatch()
}

func TestAliveReportsReusableConnection(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	if !c.IsAlive() {
		t.Error("Alive() = false of a quiet connection")
	}
	writeString(t, far, "x")
	waitReadable(near)
	if c.IsAlive() {
		t.Error("Alive() = true with bytes nobody asked for")
	}
	near, far = tcpPair(t)
	c = h1.NewConn(near, h1.Options{})
	shut(t, far)
	waitReadable(near)
	if c.IsAlive() {
		t.Error("Alive() = true behind a FIN")
	}
	near, _ = tcpPair(t)
	c = h1.NewConn(near, h1.Options{})
	shut(t, c)
	if c.IsAlive() {
		t.Error("Alive() = true of a closed connection")
	}
}

func TestLingeringCloseLetsTheAnswerArrive(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	writeString(t, far, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n"+strings.Repeat("x", 20<<10))
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	c.Writer().PutString("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { c.CloseLinger(h1.PartOfRequest); close(done) }()
	writeString(t, far, strings.Repeat("x", 100<<10))
	b, err := io.ReadAll(far)
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 413 ")) || err != nil {
		t.Errorf("the client got %q, %v, want the answer", b, err)
	}
	shut(t, far)
	<-done
}

// wrapped is a connection with a wrapper, as in package peer.
type wrapped struct{ net.Conn }

func (w wrapped) SyscallConn() (syscall.RawConn, error) {
	sc, ok := w.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}

func TestAbortedUntilCloseAnswerIsReset(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		near, far := tcpPair(t)
		if wrap {
			near = wrapped{near}
		}
		c := h1.NewConn(near, h1.Options{})
		w := c.Writer()
		w.PutString("HTTP/1.1 200 OK\r\n\r\n")
		w.BeginBody(h1.UntilClose, 0)
		writeString(t, w, "half")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		w.Abort()
		shut(t, c)
		if b, err := io.ReadAll(far); err == nil {
			t.Errorf("the client read %q to a clean end", b)
		}
	}
}

func TestIdleConnsHoldNoBuffer(t *testing.T) {
	const conns, most = 200, 4 << 10
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // a sync.Pool drops its objects in the second collection
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	nears, fars := make([]net.Conn, conns), make([]net.Conn, conns)
	for i := range nears {
		nears[i], fars[i] = tcpPair(t)
	}
	bufs, idle, before := new(h1.Buffers), make(chan *h1.Conn, conns), heap()
	var running sync.WaitGroup
	for _, nc := range nears {
		running.Go(func() {
			c := h1.NewConn(nc, h1.Options{Buffers: bufs})
			var r h1.Request
			for c.ReadRequest(&r) == nil {
				c.Writer().PutString("HTTP/1.1 204 No\r\n\r\n")
				if err := c.Flush(); err != nil {
					t.Error(err)
				}
				c.ReleaseEmptyBuffers()
				idle <- c
			}
		})
	}
	kept := make([]*h1.Conn, conns)
	for i, far := range fars {
		writeString(t, far, browserHead)
		kept[i] = <-idle
	}
	per := (int64(heap()) - int64(before)) / conns
	t.Logf("%d bytes of heap per idle connection", per)
	if per > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", per, most)
	}
	for _, c := range kept {
		c.StopWaiting()
	}
	running.Wait()
}

func TestAbortedChunksHaveNoEnd(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	w := c.Writer()
	w.BeginBody(h1.Chunked, 0)
	writeString(t, w, "half")
	w.Abort()
	if err := w.Close(nil); err == nil {
		t.Error("Close after Abort = nil")
	}
	shut(t, c)
	if b, err := io.ReadAll(far); string(b) != "4\r\nhalf\r\n" || err != nil {
		t.Errorf("the client got %q, %v", b, err)
	}
}

func TestTunnelTakesEarlyBytes(t *testing.T) {
	client, front := tcpPair(t)
	c := h1.NewConn(front, h1.Options{})
	writeString(t, client, header("Connection: upgrade\r\nUpgrade: x\r\n")+"early")
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil || !r.RequestsUpgrade() {
		t.Fatal(err)
	}
	writeString(t, client, " late")
	if !h1.NewConn(client, h1.Options{}).CloseWrite() {
		t.Fatal("the connection cannot be half-closed")
	}
	out := new(canned)
	w := h1.NewConn(out, h1.Options{}).Writer()
	w.BeginBody(h1.UntilClose, 0)
	var b h1.Body
	if n, rerr, werr := w.Copy(c.InitRestBody(&b)); n != 10 || rerr != nil || werr != nil {
		t.Errorf("Copy = %d, %v, %v", n, rerr, werr)
	}
	if err := w.Close(nil); err != nil || out.sent.String() != "early late" {
		t.Errorf("through the tunnel came %q, %v", out.sent.String(), err)
	}
}

// The sending side is closed immediately after the last check for a request, not when the goroutine
// closes the connection. Once, a request was lost that arrived in between.
func TestEndOfAnIdleConnectionFollowsTheLastLook(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  bool
		stop func(c *h1.Conn)
		o    h1.Options
	}{
		{"stopped", true, (*h1.Conn).StopWaiting, h1.Options{}},
		{"for too long", true, func(*h1.Conn) {}, h1.Options{Timeouts: h1.Timeouts{FirstByte: time.Nanosecond}}},
		{"of a node, which is told more", false, (*h1.Conn).StopWaiting, h1.Options{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			near, far := tcpPair(t)
			tc.o.CloseWriteAfterIdle = tc.end
			c := h1.NewConn(near, tc.o)
			writeString(t, far, header(""))
			waitReadable(near)
			tc.stop(c)
			var r h1.Request
			if err := c.ReadRequest(&r); err != nil {
				t.Fatalf("ReadRequest of one that had arrived = %v", err)
			}
			writeString(t, near, "alive") // the sending side stays open while there is a request to answer
			if err := c.ReadRequest(&r); err == nil {
				t.Fatal("ReadRequest of nothing: no error")
			}
			_, err := near.Write([]byte("."))
			if ended := errors.Is(err, syscall.EPIPE); ended != tc.end {
				t.Errorf("writing after the last look = %v, want the side ended: %v", err, tc.end)
			}
			shut(t, near)
			if b, err := io.ReadAll(far); !strings.HasPrefix(string(b), "alive") || err != nil {
				t.Errorf("the client got %q, %v, want what was said before, and the end", b, err)
			}
		})
	}
}
