package h1_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/h1"
)

// piped runs f in a synctest bubble with a Conn on one end of an in-memory pipe.
func piped(t *testing.T, timeouts h1.Timeouts, f func(t *testing.T, c *h1.Conn, peer net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer shut(t, near)
		defer shut(t, far)
		f(t, h1.NewConn(near, h1.Options{Buffers: new(h1.Buffers), Timeouts: timeouts}), far)
	})
}

func TestIdleClientTimesOut(t *testing.T) {
	piped(t, h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second}, func(t *testing.T, c *h1.Conn, _ net.Conn) {
		t.Helper()
		start := time.Now()
		var r h1.Request
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadRequest = %v, want a timeout", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("timed out after %v, want a minute", d)
		}
		if c.Received() != 0 {
			t.Errorf("Received() = %d, want 0", c.Received())
		}
	})
}

// A caller that has read the clock passes the time. It is used for the wait, and not for later
// timeouts.
func TestOnlyTheWaitIsCountedFromWhenTheCallerLooked(t *testing.T) {
	for said, after := range map[string]time.Duration{
		"":                          40 * time.Second, // one minute after the caller read the clock
		"GET / HTTP/1.1\r\nHost: h": 15*time.Second + 10*time.Second,
	} {
		piped(t, h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
			t.Helper()
			began := time.Now()
			go func() {
				if time.Sleep(15 * time.Second); said != "" {
					_, _ = io.WriteString(peer, said) // until it is closed
				}
			}()
			var r h1.Request
			if err := c.ReadRequestAfter(began.Add(-20*time.Second), &r); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ReadRequestAfter = %v, want a timeout", err)
			}
			if d := time.Since(began); d != after {
				t.Errorf("%q: timed out after %v, want %v", said, d, after)
			}
		})
	}
}

func TestSlowHeadTimesOutAsAWhole(t *testing.T) {
	piped(t, h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, b := range []byte(header("A: b\r\n")) {
				time.Sleep(2 * time.Second)
				if _, err := peer.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		start := time.Now()
		var r h1.Request
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadRequest = %v, want a timeout", err)
		}
		if d := time.Since(start); d > 14*time.Second {
			t.Errorf("timed out after %v, want about 12s", d)
		}
		shut(t, c)
		<-done
	})
}

func TestBodyTimesOutWhenItPauses(t *testing.T) {
	piped(t, h1.Timeouts{Body: 10 * time.Second}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		go func() {
			writeString(t, peer, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
			for range 5 {
				time.Sleep(8 * time.Second)
				writeString(t, peer, "x")
			}
		}()
		var r h1.Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(&r.Body)
		if len(b) != 5 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("body = %q, %v, want five bytes and a timeout", b, err)
		}
	})
}

func TestWriteTimesOutWhenThePeerDoesNotRead(t *testing.T) {
	piped(t, h1.Timeouts{Write: 3 * time.Second}, func(t *testing.T, c *h1.Conn, _ net.Conn) {
		t.Helper()
		c.Writer().PutString("x")
		if err := c.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) || c.Sent() != 0 {
			t.Errorf("Flush = %v, Sent() = %d, want a timeout and 0", err, c.Sent())
		}
	})
}

func TestGateIsAskedOnceBeforeTheFirstByte(t *testing.T) {
	refused := errors.New("no lease")
	piped(t, h1.Timeouts{Write: time.Minute}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		w := c.Writer()
		w.SetPrecondition(func() (time.Duration, error) { return 0, refused })
		w.PutString("first")
		if err := c.Flush(); !errors.Is(err, refused) || c.Sent() != 0 || w.Pending() != 5 {
			t.Fatalf("Flush = %v, Sent() = %d, want the gate's error and 0", err, c.Sent())
		}
		w.Discard()
		asked := 0
		w.SetPrecondition(func() (time.Duration, error) { asked++; return time.Second, nil })
		w.PutString("ab")
		go swallow(t, peer, 3)
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		w.PutString("cd")
		start := time.Now()
		if err := c.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("second Flush = %v after %v, want the usual timeout", err, time.Since(start))
		}
		if asked != 1 || c.Sent() != 3 {
			t.Errorf("asked %d times, Sent() = %d, want 1 and 3", asked, c.Sent())
		}
	})
	piped(t, h1.Timeouts{Write: time.Minute}, func(t *testing.T, c *h1.Conn, _ net.Conn) {
		t.Helper()
		c.Writer().SetPrecondition(func() (time.Duration, error) { return time.Second, nil })
		c.Writer().PutString("x")
		start := time.Now()
		if err := c.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Flush = %v after %v, want the gate's second", err, time.Since(start))
		}
	})
}

func TestStopIdleEndsTheWaitAndNotARequest(t *testing.T) {
	piped(t, h1.Timeouts{FirstByte: time.Minute}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		var r h1.Request
		done := make(chan error)
		go func() { done <- c.ReadRequest(&r) }()
		synctest.Wait()
		c.StopWaiting()
		if err := <-done; !errors.Is(err, h1.ErrStopped) {
			t.Errorf("idle ReadRequest = %v, want ErrStopped", err)
		}
		if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrStopped) {
			t.Errorf("later ReadRequest = %v, want ErrStopped", err)
		}
	})
	piped(t, h1.Timeouts{FirstByte: time.Minute}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		var r h1.Request
		done := make(chan error)
		go func() { done <- c.ReadRequest(&r) }()
		writeString(t, peer, "POST / HTTP/1.1\r\nHost: h\r\n")
		synctest.Wait()
		c.StopWaiting()
		go writeString(t, peer, "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if err := <-done; err != nil {
			t.Errorf("ReadRequest of one that had begun = %v", err)
		}
		if b, err := io.ReadAll(&r.Body); string(b) != "abc" || err != nil {
			t.Errorf("its body = %q, %v", b, err)
		}
		if err := c.ReadRequest(&r); err != nil {
			t.Errorf("ReadRequest of one that was there already = %v", err)
		}
		if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrStopped) {
			t.Errorf("ReadRequest with nothing there = %v, want ErrStopped", err)
		}
	})
}

func TestStopReadEndsABody(t *testing.T) {
	piped(t, h1.Timeouts{Body: time.Minute}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		go writeString(t, peer, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na")
		var r h1.Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := io.ReadAll(&r.Body)
			done <- err
		}()
		synctest.Wait()
		c.StopRead()
		if err := <-done; !errors.Is(err, h1.ErrStopped) {
			t.Errorf("body = %v, want ErrStopped", err)
		}
	})
}

func TestWaitLooksForAMoment(t *testing.T) {
	piped(t, h1.Timeouts{}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		if ok, err := c.WaitReadable(time.Second); ok || err != nil {
			t.Errorf("Wait = %v, %v, want false", ok, err)
		}
		go writeString(t, peer, "HTTP/1.1 204 No\r\n\r\n")
		if ok, err := c.WaitReadable(time.Hour); !ok || err != nil {
			t.Errorf("Wait = %v, %v, want true", ok, err)
		}
		var r h1.Response
		if err := c.ReadResponse(&r, nil); err != nil {
			t.Error(err)
		}
		shut(t, peer)
		if ok, err := c.WaitReadable(time.Second); ok || !errors.Is(err, io.EOF) {
			t.Errorf("Wait at the end = %v, %v, want EOF", ok, err)
		}
	})
}

func TestCopySendsWhatIsThereAtOnce(t *testing.T) {
	for _, head := range []string{"\r\n", "Content-Length: 9\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			near, app := net.Pipe()
			front, client := net.Pipe()
			up, down := h1.NewConn(near, h1.Options{}), h1.NewConn(front, h1.Options{})
			done := make(chan error)
			go func() {
				var r h1.Response
				if err := up.ReadResponse(&r, nil); err != nil {
					done <- err
					return
				}
				w := down.WriteResponseHeader(&r, &h1.Edit{})
				_, rerr, werr := w.Copy(&r.Body)
				done <- errors.Join(rerr, werr, w.Close(nil), down.Close())
			}()
			var got h1.Response
			peer := h1.NewConn(client, h1.Options{Timeouts: h1.Timeouts{FirstByte: time.Second, Body: time.Second}})
			writeString(t, app, "HTTP/1.1 200 OK\r\n"+head)
			if err := peer.ReadResponse(&got, nil); err != nil {
				t.Fatalf("the head did not come through: %v", err)
			}
			for _, event := range []string{"one", "two", "six"} {
				writeString(t, app, event)
				p := make([]byte, 3)
				if _, err := io.ReadFull(&got.Body, p); err != nil || string(p) != event {
					t.Fatalf("got %q, %v, want %q at once", p, err, event)
				}
			}
			go swallow(t, client, -1)
			shut(t, app)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A body below the minimum rate times out. Once, an occasional byte renewed the pause timeout forever.
func TestBodyTimesOutBelowItsRate(t *testing.T) {
	const patience = 10 * time.Second
	for _, tc := range []struct {
		name        string
		piece, rate int64 // bytes per second
		lull        time.Duration
		in          time.Duration // when the body times out; zero: it is complete
	}{
		{"below it", 50, 100, 0, 20 * time.Second}, // the initial allowance, and as much again for the bytes received by then
		{"at it", 100, 100, 0, 0},
		{"any", 1, 0, 0, 0},
		{"at it, and nobody asks for a while", 100, 100, time.Minute, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			piped(t, h1.Timeouts{Body: time.Minute, MinRate: tc.rate, RateGrace: patience}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
				t.Helper()
				const seconds = 40
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = fmt.Fprintf(peer, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", seconds*tc.piece)
					for range seconds {
						time.Sleep(time.Second)
						if _, err := peer.Write(make([]byte, tc.piece)); err != nil {
							return
						}
					}
				}()
				var r h1.Request
				if err := c.ReadRequest(&r); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				time.Sleep(tc.lull) // time in which no reader waits does not count
				_, err := io.Copy(io.Discard, &r.Body)
				took := time.Since(began)
				if tc.in == 0 && err != nil {
					t.Errorf("%v after %v", err, took)
				}
				if tc.in != 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took < tc.in-time.Second || took > tc.in+time.Second) {
					t.Errorf("%v after %v, want a time-out after %v", err, took, tc.in)
				}
				_ = peer.Close()
				shut(t, c)
				<-ended
			})
		})
	}
}
