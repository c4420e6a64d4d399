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
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		write(t, accepted, "sent before")
		b.Crash()
		wantRead(t, dialed, "sent before")
		wantReadError(t, dialed, io.EOF)
		wantReadError(t, accepted, net.ErrClosed)
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
		dialed, accepted = connect(t, a, again)
		write(t, dialed, "hello again")
		wantRead(t, accepted, "hello again")
	})
}

func TestCrashWithUnreadBytesResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, _ := connect(t, a, b)
		write(t, dialed, "unread")
		b.Crash()
		wantReadError(t, dialed, syscall.ECONNRESET)
	})
}

func TestFrozenHostIsSilentUntilThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		start := time.Now()
		b.Freeze()
		write(t, dialed, "waits in the kernel")
		_ = accepted.SetReadDeadline(start.Add(time.Second))
		read := make(chan error, 1)
		go func() {
			_, err := accepted.Read(make([]byte, 8))
			read <- err
		}()
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(accepted, "after waking")
			wrote <- err
		}()
		_ = dialed.SetReadDeadline(start.Add(2 * time.Second))
		wantReadError(t, dialed, os.ErrDeadlineExceeded)
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
		_ = dialed.SetReadDeadline(time.Time{})
		wantRead(t, dialed, "after waking")
		_ = accepted.SetReadDeadline(time.Time{})
		wantRead(t, accepted, "waits in the kernel")
	})
}

// The timers of a frozen host continue in this simulation. A connection that they close
// must not look like a crash to other hosts.
func TestCloseByFrozenHostIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		b.Freeze()
		_ = accepted.Close()
		_ = dialed.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, dialed, os.ErrDeadlineExceeded)
		b.Thaw()
		_ = dialed.SetReadDeadline(time.Time{})
		wantReadError(t, dialed, io.EOF)
	})
}

func TestKillOfFrozenHostIsACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		b.Freeze()
		done := make(chan error, 1)
		go func() {
			_, err := accepted.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		b.Crash()
		wantReadError(t, dialed, io.EOF)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read = %v, want net.ErrClosed", err)
		}
	})
}

func TestVanishedHostIsSilentUntilRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newHosts(t, simnet.Config{})
		dialed, _ := connect(t, a, b)
		b.Vanish()
		_ = dialed.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, dialed, os.ErrDeadlineExceeded)
		if _, err := a.DialTimeout("b:80", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial = %v, want it to hang", err)
		}
		_ = dialed.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			b.Restart()
		}()
		wantReadError(t, dialed, syscall.ECONNRESET)
		if _, err := a.Dial(t.Context(), "b:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial = %v, want ECONNREFUSED: the host runs, without a listener", err)
		}
	})
}

func TestPartitionHoldsStreamsUntilHeal(t *testing.T) {
	link := simnet.Link{Latency: 10 * time.Millisecond}
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{Link: link})
		dialed, accepted := connect(t, a, b)
		write(t, dialed, "arrived;")
		time.Sleep(10 * time.Millisecond)
		write(t, dialed, "on its way;")
		time.Sleep(5 * time.Millisecond)
		network.Partition([]string{"a"}, []string{"b"})
		write(t, dialed, "never sent")
		_ = accepted.SetReadDeadline(time.Now().Add(time.Second))
		wantRead(t, accepted, "arrived;")
		wantReadError(t, accepted, os.ErrDeadlineExceeded)
		_ = accepted.SetReadDeadline(time.Time{})
		start := time.Now()
		network.Heal()
		wantRead(t, accepted, "on its way;never sent")
		wantSince(t, start, 10*time.Millisecond)
	})
}

func TestOneWayCutLeavesTheOtherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		network.Cut("a", "b")
		write(t, dialed, "held")
		write(t, accepted, "passes")
		wantRead(t, dialed, "passes")
		_ = accepted.SetReadDeadline(time.Now().Add(time.Second))
		wantReadError(t, accepted, os.ErrDeadlineExceeded)
		network.RevertCut("a", "b")
		_ = accepted.SetReadDeadline(time.Time{})
		wantRead(t, accepted, "held")
	})
}

// The resets that a rejecting firewall forges look like the end of a process.
func TestForgedResetsBreakStreamsAndRefuseDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		network.Reset("a", "b")
		wantReadError(t, dialed, syscall.ECONNRESET)
		wantReadError(t, accepted, syscall.ECONNRESET)
		for _, d := range []struct {
			from *simnet.Host
			to   string
		}{{a, "b:80"}, {b, "a:80"}} {
			if _, err := d.from.Dial(t.Context(), d.to); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Dial(%s) = %v, want ECONNREFUSED", d.to, err)
			}
		}
		network.Heal()
		if _, err := a.Dial(t.Context(), "b:80"); err != nil {
			t.Errorf("Dial() = %v after Heal, want nil", err)
		}
	})
}

func TestPartitionKeepsGroupsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Config{})
		defer network.Close()
		hosts := map[string]*simnet.Host{}
		for _, name := range []string{"a", "b", "c", "d"} {
			hosts[name] = network.Host(name)
			if _, err := hosts[name].Listen(":80"); err != nil {
				t.Fatal(err)
			}
		}
		network.Partition([]string{"a", "b"}, []string{"c"})
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
		network, a, b := newHosts(t, simnet.Config{UserTimeout: 5 * time.Second})
		dialed, accepted := connect(t, a, b)
		network.Isolate("b")
		start := time.Now()
		write(t, dialed, "lost")
		wantReadError(t, dialed, syscall.ETIMEDOUT)
		wantSince(t, start, 5*time.Second)
		if _, err := dialed.Write([]byte("x")); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Fatalf("write = %v, want ETIMEDOUT", err)
		}
		// The other side sent nothing, so it notices only now.
		_ = accepted.SetReadDeadline(time.Now().Add(time.Minute))
		wantReadError(t, accepted, os.ErrDeadlineExceeded)
		_ = accepted.SetReadDeadline(time.Time{})
		network.Heal()
		wantReadError(t, accepted, syscall.ECONNRESET)
	})
}

func TestShortOutageDoesNotBreakStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{UserTimeout: 5 * time.Second})
		dialed, accepted := connect(t, a, b)
		for range 3 {
			network.Isolate("b")
			write(t, dialed, "late")
			time.Sleep(4 * time.Second)
			network.Heal()
			wantRead(t, accepted, "late")
		}
	})
}

func TestDialGoesThroughOnceHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		if _, err := b.Listen(":80"); err != nil {
			t.Fatal(err)
		}
		network.Isolate("a")
		start := time.Now()
		go func() {
			time.Sleep(7 * time.Second)
			network.Heal()
		}()
		if _, err := a.DialTimeout("b:80", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		wantSince(t, start, 7*time.Second)
	})
}

func TestLinkChangesWhileStreamsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, a, b := newHosts(t, simnet.Config{})
		dialed, accepted := connect(t, a, b)
		network.SetLink("a", "b", simnet.Link{Latency: time.Second})
		start := time.Now()
		write(t, dialed, "slow")
		wantRead(t, accepted, "slow")
		wantSince(t, start, time.Second)
		network.SetLink("a", "b", simnet.Link{Loss: 1})
		write(t, dialed, "held")
		_ = accepted.SetReadDeadline(time.Now().Add(time.Hour))
		wantReadError(t, accepted, os.ErrDeadlineExceeded)
		_ = accepted.SetReadDeadline(time.Time{})
		network.SetLink("a", "b", simnet.Link{})
		wantRead(t, accepted, "held")
	})
}
