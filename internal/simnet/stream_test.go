package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
)

// connect returns both ends of a stream from a to port 80 of b.
func connect(t *testing.T, a, b *simnet.Host) (dialed, accepted net.Conn) {
	t.Helper()
	ln, err := b.Listen(":80")
	if err != nil {
		t.Fatal(err)
	}
	dialed, err = a.Dial(t.Context(), b.Addr(80))
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed, accepted
}

// newHosts returns a Net with hosts a and b that ends with the test's bubble.
func newHosts(t *testing.T, c simnet.Config) (network *simnet.Net, a, b *simnet.Host) {
	t.Helper()
	network = simnet.New(c)
	t.Cleanup(network.Close)
	return network, network.Host("a"), network.Host("b")
}

func write(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func closeWrite(t *testing.T, conn net.Conn) {
	t.Helper()
	w, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatalf("%T has no CloseWrite", conn)
	}
	if err := w.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

func wantRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v, want %q", b, err, want)
	}
}

func wantReadError(t *testing.T, conn net.Conn, want error) {
	t.Helper()
	if k, err := conn.Read(make([]byte, 8)); !errors.Is(err, want) {
		t.Fatalf("read = %d, %v, want %v", k, err, want)
	}
}

func wantSince(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func TestWritesNeedNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		write(t, dialed, "to b")
		write(t, accepted, "to a")
		wantRead(t, dialed, "to a")
		wantRead(t, accepted, "to b")
	})
}

func TestFullWindowBlocksUntilRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		done := make(chan error, 1)
		go func() {
			_, err := dialed.Write(data)
			done <- errors.Join(err, dialed.Close())
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("a write of 1 MiB came through unread: %v", err)
		default:
		}
		got, err := io.ReadAll(accepted)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d bytes, %v, want the %d sent", len(got), err, len(data))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		start := time.Now()
		_ = dialed.SetDeadline(start.Add(time.Second))
		wantReadError(t, dialed, os.ErrDeadlineExceeded)
		wantSince(t, start, time.Second)
		_ = dialed.SetDeadline(time.Now().Add(time.Second))
		_, err := dialed.Write(make([]byte, 1<<20))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Fatalf("write = %v, want a timeout", err)
		}
		wantSince(t, start, 2*time.Second)
		// A deadline set during a call applies immediately.
		go func() {
			time.Sleep(time.Second)
			_ = accepted.SetReadDeadline(time.Unix(1, 0))
		}()
		if _, err := io.Copy(io.Discard, accepted); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read = %v, want the deadline", err)
		}
		_ = dialed.SetDeadline(time.Time{})
		write(t, dialed, "again")
	})
}

func TestHalfCloseLeavesTheOtherHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		write(t, dialed, "question")
		closeWrite(t, dialed)
		if _, err := dialed.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("write after CloseWrite = %v, want EPIPE", err)
		}
		if got, err := io.ReadAll(accepted); err != nil || string(got) != "question" {
			t.Fatalf("read %q, %v", got, err)
		}
		write(t, accepted, "answer")
		_ = accepted.Close()
		if got, err := io.ReadAll(dialed); err != nil || string(got) != "answer" {
			t.Fatalf("read %q, %v", got, err)
		}
	})
}

func TestCloseEndsBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		done := make(chan error, 1)
		go func() {
			_, err := dialed.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		_ = dialed.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("own read = %v, want net.ErrClosed", err)
		}
		wantReadError(t, accepted, io.EOF)
		write(t, accepted, "into the void") // TCP takes the first write after a close
		if _, err := accepted.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("second write = %v, want EPIPE", err)
		}
		if err := dialed.Close(); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("second Close = %v, want net.ErrClosed", err)
		}
	})
}

// This is the case for which servers use a lingering close.
func TestCloseWithUnreadBytesResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		write(t, dialed, "unread")
		write(t, accepted, "last words")
		_ = accepted.Close()
		wantRead(t, dialed, "last words")
		wantReadError(t, dialed, syscall.ECONNRESET)
	})
}

func TestLatencyAndJitterKeepOrder(t *testing.T) {
	link := simnet.Link{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.2}
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{Seed: 7, Link: link})
		start := time.Now()
		dialed, accepted := connect(t, a, b)
		if d := time.Since(start); d < 20*time.Millisecond {
			t.Fatalf("dial took %v, want a round trip of 20ms or more", d)
		}
		var want []byte
		for i := range 200 {
			want = append(want, byte(i))
			write(t, dialed, string([]byte{byte(i)}))
		}
		_ = dialed.Close()
		got, err := io.ReadAll(accepted)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read %v, %v, want 0..199 in order", got, err)
		}
	})
}

// If a stream keeps sending, the acknowledgements of later segments report a loss, so the
// stream does not wait for timers that double.
func TestLaterSegmentsRepairEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{Seed: 3, Link: simnet.Link{Latency: time.Millisecond, Loss: 0.3}})
		dialed, accepted := connect(t, a, b)
		go func() {
			for range 1000 {
				time.Sleep(50 * time.Millisecond)
				_, _ = dialed.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Since(epoch)))) // the reader misses it
			}
		}()
		slow, buf := 0, make([]byte, 8)
		for range 1000 {
			if _, err := io.ReadFull(accepted, buf); err != nil {
				t.Fatal(err)
			}
			if time.Since(epoch)-time.Duration(binary.BigEndian.Uint64(buf)) > 300*time.Millisecond {
				slow++
			}
		}
		if slow > 50 {
			t.Errorf("%d of 1000 segments took more than 300 ms, want 50 at most", slow)
		}
	})
}

// Data that a bad route lost repeatedly is retransmitted when its timer next expires after
// the route has improved. Losses drawn for the bad route must not delay it further, by up
// to half a minute.
func TestGoodRouteLosesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{Seed: 3})
		dialed, accepted := connect(t, a, b)
		for i := range 100 {
			network.SetLink("a", "b", simnet.Link{Loss: 0.9})
			write(t, dialed, "lost")
			time.Sleep(500 * time.Millisecond)
			network.SetLink("a", "b", simnet.Link{})
			healed := time.Now()
			wantRead(t, accepted, "lost")
			if elapsed := time.Since(healed); elapsed > 100*time.Millisecond {
				t.Fatalf("segment %d came %v after the way was good, want it at its third sending, 600 ms after the first", i, elapsed)
			}
		}
	})
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		if _, err := a.Dial(t.Context(), b.Addr(80)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a listener: %v, want ECONNREFUSED", err)
		}
		if _, err := a.Dial(t.Context(), "10.9.9.9:80"); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("no such address: %v, want EHOSTUNREACH", err)
		}
		network.Cut("b", "a")
		start := time.Now()
		_, err := a.DialTimeout("b:80", 3*time.Second)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing comes back: %v, want the deadline", err)
		}
		wantSince(t, start, 3*time.Second)
		_, err = a.Dial(context.Background(), "b:80")
		if !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("without a deadline: %v, want ETIMEDOUT", err)
		}
		if _, err := a.Listen("b:80"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("listen on another's address: %v, want EADDRNOTAVAIL", err)
		}
	})
}

// A dial ends with its context while its response is in transit. On a frozen machine it
// ends when the machine continues.
func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{Link: simnet.Link{Latency: time.Second}})
		start := time.Now()
		if _, err := a.DialTimeout(b.Addr(80), time.Second/2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an answer that is under way: %v, want the deadline", err)
		}
		wantSince(t, start, time.Second/2)
		network.Cut("b", "a")
		time.AfterFunc(time.Second, a.Freeze)
		time.AfterFunc(5*time.Second, a.Thaw)
		start = time.Now()
		if _, err := a.DialTimeout(b.Addr(80), 2*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a machine that stood still: %v, want the deadline", err)
		}
		wantSince(t, start, 5*time.Second)
		a.Freeze()
		time.AfterFunc(time.Second, a.Thaw)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		if _, err := a.Dial(ended, b.Addr(80)); !errors.Is(err, context.Canceled) {
			t.Errorf("dial to a frozen machine: %v, want the cancellation", err)
		}
		wantSince(t, start, time.Second)
	})
}

// clockContext is a context whose check needs the network.
type clockContext struct {
	context.Context //nolint:containedctx // it is one
	n               *simnet.Net
}

func (m clockContext) Err() error {
	m.n.Heal()
	return m.Context.Err()
}

func (m clockContext) Done() <-chan struct{} {
	m.n.Heal()
	return m.Context.Done()
}

// A context may read the clock of a frozen machine, which blocks until the fault ends. No
// other caller may wait for that.
func TestDialChecksContextWithoutLockingNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		if _, err := a.Dial(clockContext{t.Context(), network}, b.Addr(80)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial = %v, want ECONNREFUSED", err)
		}
	})
}

func TestHostReachesItselfByLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, _ := newHosts(t, simnet.Config{Link: simnet.Link{Latency: time.Second}})
		ln, err := a.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		network.Isolate("a")
		start := time.Now()
		dialed, err := a.Dial(t.Context(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		write(t, dialed, "me")
		wantRead(t, accepted, "me")
		wantSince(t, start, 0)
		if _, err := a.Listen(ln.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second listen = %v, want EADDRINUSE", err)
		}
	})
}

func TestClosedListenerRefusesAndResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		ln, err := b.Listen(":80")
		if err != nil {
			t.Fatal(err)
		}
		dialed, err := a.Dial(t.Context(), "b:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		wantReadError(t, dialed, syscall.ECONNRESET)
		if _, err := a.Dial(t.Context(), "b:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial = %v, want ECONNREFUSED", err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept = %v, want net.ErrClosed", err)
		}
	})
}
