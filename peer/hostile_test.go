package peer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/simnet"
	"shardway/peer"
)

// rawHello returns the bytes of a preface: kind forward, boot 1, from node "a" of cluster "c1" to node
// "b".
func rawHello(version byte) []byte {
	body := "\x03" + rawRecord(1) + rawRecord(0) + "\x02c1" + "\x01a" + "\x00" + "\x01b" + "\x00"
	return append([]byte{'S', 'H', 'W', 'Y', version, 0, byte(len(body))}, body...)
}

// rawRecord returns the bytes of a boot without a disk record.
func rawRecord(boot byte) string {
	return string(append(append(make([]byte, 7), boot), make([]byte, 4*8)...))
}

// hostile returns an echoing port "b" of cluster "c1" on a simulated host, and a host for the
// attacker. Both end with the synctest bubble.
func hostile(t *testing.T, o peer.Options) (p *peer.Port, bad *simnet.Host) {
	t.Helper()
	n := simnet.New(simnet.Config{})
	h, bad := n.Host("b"), n.Host("bad")
	o.Node, o.Dial = "b", h.Dial
	if o.Cluster == nil {
		o.Cluster = in("c1")
	}
	o.Lookup = func(string) (string, bool) { return h.Addr(7947), true }
	p = peer.New(o)
	p.Handle(peer.Forward, echo)
	p.Handle(peer.Heartbeat, echo)
	p.Handle(peer.Raft, echo)
	ln, err := h.Listen(":7947")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
		n.Close()
	})
	return p, bad
}

func knock(t *testing.T, bad *simnet.Host) net.Conn {
	t.Helper()
	c, err := bad.Dial(t.Context(), "b:7947")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantStream(t *testing.T, p *peer.Port, node string, k peer.Kind) *peer.Conn {
	t.Helper()
	c, err := p.Dial(t.Context(), node, k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUnknownVersionErrorHasBothNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, bad := hostile(t, peer.Options{})
		c := knock(t, bad)
		if _, err := c.Write(rawHello(7)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(got, []byte("SHWY\x02\x02")) || !bytes.Contains(got, []byte("protocol 7")) ||
			!bytes.Contains(got, []byte("uses 2")) {
			t.Errorf("answer = %q, want a refusal that names 7 and 2", got)
		}
	})
}

func TestAnswerOfUnknownVersionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		a, b := n.Host("a"), n.Host("b")
		ln, err := b.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, aerr := ln.Accept()
			if aerr != nil {
				t.Error(aerr)
				return
			}
			_, _ = io.ReadFull(c, make([]byte, len(rawHello(2))))
			_, _ = io.WriteString(c, "SHWY\x09\x01\x00\x00")
		}()
		p := peer.New(peer.Options{
			Node: "a", Cluster: in("c1"), Dial: a.Dial,
			Lookup: func(string) (string, bool) { return b.Addr(1), true },
		})
		_, err = p.Dial(t.Context(), "b", peer.Forward)
		var re *peer.RefusedError
		if !errors.As(err, &re) || re.Code != peer.RefusedVersionMismatch || !strings.Contains(re.Reason, "9") {
			t.Errorf("dial = %v, want it refused for version 9", err)
		}
	})
}

func TestBytesAfterThePrefaceBelongToTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, bad := hostile(t, peer.Options{})
		c := knock(t, bad)
		if _, err := c.Write(append(rawHello(2), "early"...)); err != nil {
			t.Fatal(err)
		}
		answer := "SHWY\x02\x01\x00\x2e" + rawRecord(0) + "\x02c1" + "\x01b" + "\x00"
		b := make([]byte, len(answer)+len("early"))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != answer+"early" {
			t.Errorf("read %q, %v, want %q", b, err, answer+"early")
		}
	})
}

func TestGarbageIsClosedUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bad := hostile(t, peer.Options{})
		for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x02\x01\x02\x00", "SHW", "", "SHWX1234567"} {
			c := knock(t, bad)
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			w, ok := c.(interface{ CloseWrite() error })
			if !ok {
				t.Fatalf("%T has no CloseWrite", c)
			}
			_ = w.CloseWrite()
			if got, _ := io.ReadAll(c); len(got) != 0 {
				t.Errorf("%q was answered with %q", text, got)
			}
			_ = c.Close()
		}
		if s := p.Stats(); s.FailedHandshakes != 5 || s.Accepted != 0 {
			t.Errorf("stats = %+v, want 5 broken", s)
		}
		_ = wantStream(t, p, "b", peer.Forward).Close()
	})
}

func TestMalformedPrefaceIsReported(t *testing.T) {
	long := rawHello(2)
	long[5], long[6] = 0xff, 0xff
	short := rawHello(2)
	short[6]--
	for _, b := range [][]byte{long, short[:len(short)-1]} {
		synctest.Test(t, func(t *testing.T) {
			_, bad := hostile(t, peer.Options{})
			c := knock(t, bad)
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			head := make([]byte, 6)
			if _, err := io.ReadFull(c, head); err != nil || string(head) != "SHWY\x02\x03" {
				t.Errorf("answer = %q, %v, want it refused as malformed", head, err)
			}
		})
	}
}

func TestSilentDialerIsClosedAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, bad := hostile(t, peer.Options{HandshakeTimeout: 3 * time.Second})
		start := time.Now()
		silent, slow := knock(t, bad), knock(t, bad)
		go func() {
			for _, b := range rawHello(2) { // one byte per second exceeds the timeout
				if _, err := slow.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		for _, c := range []net.Conn{silent, slow} {
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read = %v, want the connection closed", err)
			}
			if d := time.Since(start); d != 3*time.Second {
				t.Errorf("closed after %v, want 3s", d)
			}
		}
		time.Sleep(time.Minute)
	})
}

func TestSilentPortFailsTheDialInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		a, b := n.Host("a"), n.Host("b")
		if _, err := b.Listen(":1"); err != nil { // it never accepts
			t.Fatal(err)
		}
		p := peer.New(peer.Options{
			Node: "a", Cluster: in("c1"), Dial: a.Dial,
			Lookup: func(string) (string, bool) { return b.Addr(1), true },
		})
		start := time.Now()
		if _, err := p.Dial(t.Context(), "b", peer.Forward); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial = %v, want the deadline", err)
		}
		if d := time.Since(start); d != peer.DefaultHandshakeTimeout {
			t.Errorf("took %v, want %v", d, peer.DefaultHandshakeTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		if _, err := p.Dial(ctx, "b", peer.Forward); !errors.Is(err, context.Canceled) {
			t.Errorf("dial = %v, want it cancelled", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("took %v, want 1s", d)
		}
	})
}

func TestSilentDialersDoNotKeepPeersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bad := hostile(t, peer.Options{MaxHandshakes: 8})
		var held []net.Conn
		for range 100 {
			held = append(held, knock(t, bad))
			synctest.Wait()
		}
		_ = wantStream(t, p, "b", peer.Heartbeat).Close()
		if s := p.Stats(); s.Evicted < 92 {
			t.Errorf("evicted %d, want the oldest of 100 gone", s.Evicted)
		}
		if _, err := held[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the oldest reads %v, want EOF", err)
		}
	})
}

func TestOneKindDoesNotExhaustTheLimitOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hostile(t, peer.Options{MaxForwardStreams: 4})
		var open []*peer.Conn
		for range 4 {
			open = append(open, wantStream(t, p, "b", peer.Forward))
		}
		_, err := p.Dial(t.Context(), "b", peer.Forward)
		var re *peer.RefusedError
		if !errors.As(err, &re) || re.Code != peer.RefusedStreamLimit {
			t.Fatalf("the fifth = %v, want it refused as busy", err)
		}
		_ = wantStream(t, p, "b", peer.Heartbeat).Close()
		_ = open[0].Close()
		synctest.Wait()
		_ = wantStream(t, p, "b", peer.Forward).Close()
		for _, c := range open[1:] {
			_ = c.Close()
		}
		synctest.Wait()
		if s := p.Stats(); s.Open != 0 {
			t.Errorf("%d open, want 0", s.Open)
		}
	})
}

func TestCrashedNodeLooksRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		a, b := n.Host("a"), n.Host("b")
		b.Crash()
		p := peer.New(peer.Options{
			Node: "a", Cluster: in("c1"), Dial: a.Dial,
			Lookup: func(string) (string, bool) { return b.Addr(1), true },
		})
		if _, err := p.Dial(t.Context(), "b", peer.Heartbeat); !peer.IsRefused(err) {
			t.Errorf("dial = %v, want IsRefused", err)
		}
	})
}

// The dialer checks the identity in the response, because a process that took over the address may not
// check the request.
func TestDialerChecksIdentityOfTheAnswer(t *testing.T) {
	for answer, want := range map[string]peer.Refusal{
		"\x02c1\x01z\x00":  peer.RefusedWrongNode,
		"\x02c9\x01b\x00":  peer.RefusedClusterMismatch,
		"\x00\x01b\x02d1x": 0, // too many bytes
		"":                 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.New(simnet.Config{})
			t.Cleanup(n.Close)
			a, b := n.Host("a"), n.Host("b")
			ln, err := b.Listen(":1")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				c, aerr := ln.Accept()
				if aerr != nil {
					t.Error(aerr)
					return
				}
				_, _ = io.ReadFull(c, make([]byte, len(rawHello(2))))
				body := rawRecord(1) + answer
				_, _ = io.WriteString(c, "SHWY\x02\x01\x00"+string([]byte{byte(len(body))})+body)
			}()
			p := peer.New(peer.Options{
				Node: "a", Cluster: in("c1"), Dial: a.Dial,
				Lookup: func(string) (string, bool) { return b.Addr(1), true },
			})
			_, err = p.Dial(t.Context(), "b", peer.Forward)
			var re *peer.RefusedError
			if err == nil || errors.As(err, &re) != (want != 0) || (re != nil && re.Code != want) {
				t.Errorf("answer %q: %v, want refusal %v", answer, err, want)
			}
		})
	}
}

func TestRefusalIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, _ := hostile(t, peer.Options{Log: zerolog.New(&log)})
		refused := func() {
			t.Helper()
			if _, err := p.Dial(t.Context(), "b", peer.Control); err == nil {
				t.Fatal("a kind without a handler was accepted")
			}
			synctest.Wait()
		}
		for range 10 {
			refused()
		}
		if got := strings.Count(log.String(), "peer stream refused"); got != 1 {
			t.Errorf("logged %d times in a moment, want once: %s", got, log.String())
		}
		time.Sleep(time.Minute)
		refused()
		if got := strings.Count(log.String(), "peer stream refused"); got != 2 {
			t.Errorf("logged %d times after a minute, want twice", got)
		}
	})
}
