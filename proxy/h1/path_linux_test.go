package h1_test

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/e2e/kit/netns"
	"shardway/proxy/h1"
)

// wire is a TCP connection in a network namespace of its own. The segments of either direction can be
// dropped.
type wire struct {
	t    *testing.T
	near net.Conn // with the same probes as connections between nodes
	far  net.Conn
	h    *h1.Conn // the Conn of near
}

// newWire creates a wire. The namespace belongs to the thread of the test and ends with it.
func newWire(t *testing.T) *wire {
	t.Helper()
	if err := netns.Filters(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t}
	w.run("", "ip", "link", "set", "lo", "up")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, ln)
	if w.near, err = net.Dial("tcp", ln.Addr().String()); err == nil {
		w.far, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	tcp, ok := w.near.(*net.TCPConn)
	if !ok {
		t.Fatal("no TCP")
	}
	if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}); err != nil {
		t.Fatal(err)
	}
	w.h = h1.NewConn(w.near, h1.Options{})
	t.Cleanup(func() { _, _ = w.near.Close(), w.far.Close() })
	return w
}

func (w *wire) run(stdin, name string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %v: %v %s", name, args, err, out)
	}
}

// lose drops the segments that are sent by c.
func (w *wire) lose(c net.Conn) {
	w.t.Helper()
	_, port, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(fmt.Sprintf(`add table ip lost
add chain ip lost in { type filter hook input priority 0; }
add rule ip lost in tcp sport %s drop
`, port), "nft", "-f", "-")
}

func (w *wire) restore() {
	w.t.Helper()
	w.run("", "nft", "delete", "table", "ip", "lost")
}

// exchange sends one byte in each direction and returns once both are acknowledged.
func (w *wire) exchange() {
	w.t.Helper()
	for _, c := range [][2]net.Conn{{w.near, w.far}, {w.far, w.near}} {
		if _, err := c[0].Write([]byte("x")); err != nil {
			w.t.Fatal(err)
		}
		if _, err := c[1].Read(make([]byte, 1)); err != nil {
			w.t.Fatal(err)
		}
		for w.info(c[0]).Unacked > 0 {
			runtime.Gosched()
		}
	}
}

func (w *wire) info(c net.Conn) (info *unix.TCPInfo) {
	w.t.Helper()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		w.t.Fatal("no TCP")
	}
	raw, err := tcp.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
		if cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// pause waits for as long as Hear requests, or a little longer.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// A dead path is detected after two unanswered probes. Once, it took three seconds, because the kernel
// waits a second between two probes. The same happened with a lost request in flight, because the
// other end's own probes arrived. The test counts the time that Hear requested in total, not the real
// time on a busy machine.
func TestDeadPathIsDetected(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		sending bool
		lost    func(w *wire) net.Conn
	}{
		{"waiting, what comes is lost", false, func(w *wire) net.Conn { return w.far }},
		{"waiting, what goes is lost", false, func(w *wire) net.Conn { return w.near }},
		{"sending, what comes is lost", true, func(w *wire) net.Conn { return w.far }},
		{"sending, what goes is lost", true, func(w *wire) net.Conn { return w.near }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.exchange()
			w.lose(tc.lost(w))
			began := time.Now()
			if tc.sending {
				if _, err := w.near.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			var asked time.Duration
			looks := 0
			for h, again := w.h.CheckPath(); h != h1.PathDead; h, again = w.h.CheckPath() {
				if asked, looks = asked+again, looks+1; asked > 1900*time.Millisecond {
					t.Fatalf("not after %d looks", looks)
				}
				pause(t, again)
			}
			info := w.info(w.near)
			t.Logf("after %v and %d looks, %v of waiting asked for: silent for %d ms, %d probes, sent again %d times",
				time.Since(began), looks, asked, info.Last_ack_recv, info.Probes, info.Retransmits)
			if sent := int(info.Probes) + int(info.Retransmits); sent < 2 {
				t.Errorf("judged by %d segments that nobody answered", sent)
			}
		})
	}
}

// One lost probe does not make a path dead. The next probe must be late enough for the peer's kernel,
// which answers one in half a second. Once, three probes were sent within 250 ms, the kernel did not
// answer two of them, and a single lost segment looked like a dead path.
func TestLostProbeIsNoDeadPath(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.exchange()
	w.lose(w.far)
	for w.info(w.near).Probes == 0 {
		_, again := w.h.CheckPath()
		pause(t, again)
	}
	w.restore()
	for w.info(w.near).Probes > 0 {
		h, again := w.h.CheckPath()
		if h == h1.PathDead {
			t.Fatal("dead after one lost word")
		}
		pause(t, again)
	}
}

// An idle path is checked once a second.
func TestQuietPathIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.exchange()
	looks, asked := 0, time.Duration(0)
	for ; asked < 5*time.Second; looks++ {
		h, again := w.h.CheckPath()
		if h == h1.PathDead {
			t.Fatal("taken for dead")
		}
		asked += again
		pause(t, again)
	}
	if looks > 10 {
		t.Errorf("%d looks in %v", looks, asked)
	}
}
