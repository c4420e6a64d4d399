package simnet_test

import (
	"context"
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

func TestCrashShowsEOFAndRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		write(t, y, "sent before")
		b.Crash()
		wantRead(t, x, "sent before")
		wantReadError(t, x, io.EOF)
		wantReadError(t, y, net.ErrClosed)
		if _, err := a.Dial(t.Context(), "b:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("redial = %v, want ECONNREFUSED", err)
		}
		if _, err := b.Dial(t.Context(), "a:80"); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("dial by the dead = %v, want net.ErrClosed", err)
		}
		if _, err := b.Listen(":80"); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("listen by the dead = %v, want net.ErrClosed", err)
		}
		again := b.Restart()
		if again.Addr(80) != b.Addr(80) {
			t.Fatalf("restarted at %s, want %s", again.Addr(80), b.Addr(80))
		}
		x, y = pair(t, a, again)
		write(t, x, "hello again")
		wantRead(t, y, "hello again")
	})
}

func TestCrashWithUnreadBytesResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, _ := pair(t, a, b)
		write(t, x, "unread")
		b.Crash()
		wantReadError(t, x, syscall.ECONNRESET)
	})
}

func TestFrozenHostIsSilentUntilThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		start := time.Now()
		b.Freeze()
		write(t, x, "waits in the kernel")
		_ = y.SetReadDeadline(start.Add(time.Second))
		read := make(chan error, 1)
		go func() {
			_, err := y.Read(make([]byte, 8))
			read <- err
		}()
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(y, "after waking")
			wrote <- err
		}()
		_ = x.SetReadDeadline(start.Add(2 * time.Second))
		wantReadError(t, x, os.ErrDeadlineExceeded)
		if _, err := a.DialTimeout("b:80", 2*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial = %v, want it to hang", err)
		}
		select {
		case err := <-read:
			t.Fatalf("the frozen side's read returned %v", err)
		case err := <-wrote:
			t.Fatalf("the frozen side's write returned %v", err)
		default:
		}
		b.Thaw()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read after waking = %v, want its deadline", err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		_ = x.SetReadDeadline(time.Time{})
		wantRead(t, x, "after waking")
		_ = y.SetReadDeadline(time.Time{})
		wantRead(t, y, "waits in the kernel")
	})
}

// The timers of a frozen host continue in this simulation. A connection that they close
// must not look like a crash to other hosts.
func TestCloseByFrozenHostIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		b.Freeze()
		_ = y.Close()
		_ = x.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, x, os.ErrDeadlineExceeded)
		b.Thaw()
		_ = x.SetReadDeadline(time.Time{})
		wantReadError(t, x, io.EOF)
	})
}

func TestKillOfFrozenHostIsACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		b.Freeze()
		done := make(chan error, 1)
		go func() {
			_, err := y.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		b.Crash()
		wantReadError(t, x, io.EOF)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read = %v, want net.ErrClosed", err)
		}
	})
}

func TestVanishedHostIsSilentUntilRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t, simnet.Config{})
		x, _ := pair(t, a, b)
		b.Vanish()
		_ = x.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, x, os.ErrDeadlineExceeded)
		if _, err := a.DialTimeout("b:80", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial = %v, want it to hang", err)
		}
		_ = x.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			b.Restart()
		}()
		wantReadError(t, x, syscall.ECONNRESET)
		if _, err := a.Dial(t.Context(), "b:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial = %v, want ECONNREFUSED: the host runs, without a listener", err)
		}
	})
}

func TestPartitionHoldsStreamsUntilHeal(t *testing.T) {
	link := simnet.Link{Latency: 10 * time.Millisecond}
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{Link: link})
		x, y := pair(t, a, b)
		write(t, x, "arrived;")
		time.Sleep(10 * time.Millisecond)
		write(t, x, "on its way;")
		time.Sleep(5 * time.Millisecond)
		n.Partition([]string{"a"}, []string{"b"})
		write(t, x, "never sent")
		_ = y.SetReadDeadline(time.Now().Add(time.Second))
		wantRead(t, y, "arrived;")
		wantReadError(t, y, os.ErrDeadlineExceeded)
		_ = y.SetReadDeadline(time.Time{})
		start := time.Now()
		n.Heal()
		wantRead(t, y, "on its way;never sent")
		wantSince(t, start, 10*time.Millisecond)
	})
}

func TestOneWayCutLeavesTheOtherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		n.Cut("a", "b")
		write(t, x, "held")
		write(t, y, "passes")
		wantRead(t, x, "passes")
		_ = y.SetReadDeadline(time.Now().Add(time.Second))
		wantReadError(t, y, os.ErrDeadlineExceeded)
		n.RevertCut("a", "b")
		_ = y.SetReadDeadline(time.Time{})
		wantRead(t, y, "held")
	})
}

// The resets that a rejecting firewall forges look like the end of a process.
func TestForgedResetsBreakStreamsAndRefuseDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		n.Reset("a", "b")
		wantReadError(t, x, syscall.ECONNRESET)
		wantReadError(t, y, syscall.ECONNRESET)
		for _, d := range []struct {
			from *simnet.Host
			to   string
		}{{a, "b:80"}, {b, "a:80"}} {
			if _, err := d.from.Dial(t.Context(), d.to); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Dial(%s) = %v, want ECONNREFUSED", d.to, err)
			}
		}
		n.Heal()
		if _, err := a.Dial(t.Context(), "b:80"); err != nil {
			t.Errorf("Dial() = %v after Heal, want nil", err)
		}
	})
}

func TestPartitionKeepsGroupsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		hosts := map[string]*simnet.Host{}
		for _, name := range []string{"a", "b", "c", "d"} {
			hosts[name] = n.Host(name)
			if _, err := hosts[name].Listen(":80"); err != nil {
				t.Fatal(err)
			}
		}
		n.Partition([]string{"a", "b"}, []string{"c"})
		for _, tc := range []struct {
			from, to string
			open     bool
		}{
			{"a", "b", true}, {"a", "c", false}, {"c", "b", false}, {"d", "c", true}, {"a", "d", true}, {"c", "c", true},
		} {
			_, err := hosts[tc.from].DialTimeout(tc.to+":80", time.Second)
			if (err == nil) != tc.open {
				t.Errorf("dial %s to %s = %v, want open: %v", tc.from, tc.to, err, tc.open)
			}
		}
	})
}

func TestUserTimeoutBreaksTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{UserTimeout: 5 * time.Second})
		x, y := pair(t, a, b)
		n.Isolate("b")
		start := time.Now()
		write(t, x, "lost")
		wantReadError(t, x, syscall.ETIMEDOUT)
		wantSince(t, start, 5*time.Second)
		if _, err := x.Write([]byte("x")); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Fatalf("write = %v, want ETIMEDOUT", err)
		}
		// The other side sent nothing, so it notices only now.
		_ = y.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, y, os.ErrDeadlineExceeded)
		_ = y.SetReadDeadline(time.Time{})
		n.Heal()
		wantReadError(t, y, syscall.ECONNRESET)
	})
}

func TestShortOutageDoesNotBreakStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{UserTimeout: 5 * time.Second})
		x, y := pair(t, a, b)
		for range 3 {
			n.Isolate("b")
			write(t, x, "late")
			time.Sleep(4 * time.Second)
			n.Heal()
			wantRead(t, y, "late")
		}
	})
}

func TestDialGoesThroughOnceHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{})
		if _, err := b.Listen(":80"); err != nil {
			t.Fatal(err)
		}
		n.Isolate("a")
		start := time.Now()
		go func() {
			time.Sleep(7 * time.Second)
			n.Heal()
		}()
		if _, err := a.DialTimeout("b:80", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		wantSince(t, start, 7*time.Second)
	})
}

func TestLinkChangesWhileStreamsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := two(t, simnet.Config{})
		x, y := pair(t, a, b)
		n.SetLink("a", "b", simnet.Link{Latency: time.Second})
		start := time.Now()
		write(t, x, "slow")
		wantRead(t, y, "slow")
		wantSince(t, start, time.Second)
		n.SetLink("a", "b", simnet.Link{Loss: 1})
		write(t, x, "held")
		_ = y.SetReadDeadline(time.Now().Add(time.Hour))
		wantReadError(t, y, os.ErrDeadlineExceeded)
		_ = y.SetReadDeadline(time.Time{})
		n.SetLink("a", "b", simnet.Link{})
		wantRead(t, y, "held")
	})
}
